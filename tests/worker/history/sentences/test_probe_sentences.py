"""Is a probe result described in one line?"""

import pytest

from proto.temporal import names
from proto.temporal.pod import ProbeKind
from proto.temporal.signals import ProbeVerdict
from tests.worker.history.story_recorder import Recorder


@pytest.mark.parametrize(
    ("kind", "success", "message", "line"),
    [
        pytest.param("readiness", True, "", "container web is ready", id="ready"),
        pytest.param(
            "readiness",
            False,
            "HTTP probe failed with statuscode: 503",
            "container web is not ready, its readiness probe failed: HTTP probe failed with statuscode: 503",
            id="not-ready",
        ),
        pytest.param(
            "liveness",
            False,
            "HTTP probe failed with statuscode: 500\n",
            "container web failed its liveness probe: HTTP probe failed with statuscode: 500",
            id="not-alive",
        ),
        pytest.param("startup", False, "", "container web failed its startup probe", id="not-started"),
        pytest.param("startup", True, "", "container web passed its startup probe", id="started"),
    ],
)
def test_verdicts(kind: str, success: bool, message: str, line: str) -> None:
    """With the probe's last output when it is bad."""
    recorded = Recorder()
    recorded.begin()
    recorded.signal(names.PROBE_VERDICT, ProbeVerdict("web", "c1", ProbeKind(kind), success, message, 1))
    assert recorded.texts()[1:] == [line]


def test_a_probe_that_flaps() -> None:
    """One line stands for many changes, and says how many."""
    recorded = Recorder()
    recorded.begin()
    recorded.signal(names.PROBE_VERDICT, ProbeVerdict("web", "c1", ProbeKind.READINESS, True, "", 57, turns=37))
    assert recorded.texts()[1:] == ["container web is ready (changed 37 times since it was last recorded)"]
