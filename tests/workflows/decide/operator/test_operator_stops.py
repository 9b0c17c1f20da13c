"""Which stops may an operator shorten, and with which result?"""

from datetime import timedelta
from typing import Any

import pytest

from proto.temporal.operator import StopPod
from proto.temporal.pod import Lifecycle
from proto.temporal.pod_inputs import Eviction
from tests.workflows.decide.situations import Context, at, container, deletion, pod, situation, up
from workflows.decide.ending.grace import effective_grace
from workflows.decide.operator.operator_stops import stops, why_no_stop
from workflows.decide.record.signals import apply_signal

WEB: dict[str, Any] = {"containers": {"web": up()}}
GOING: dict[str, Any] = WEB | {"deletion": deletion(), "lifecycle": Lifecycle.TERMINATING}
FINISHED: dict[str, Any] = {"containers": {}, "finished_at": at(-60), "lifecycle": Lifecycle.TERMINATED}
TOO_LONG = Eviction(at(-5), "DeadlineExceeded", "too long")
HOOKED = pod(containers=[container("web", lifecycle={"preStop": {"sleep": {"seconds": 9}}})])
SERVED: dict[str, Any] = GOING | {"containers": {"web": up(), "side": up("side")}}


def asked(grace: float | None = None) -> StopPod:
    """Build a request to stop within this many seconds."""
    return StopPod("root@node-1", None if grace is None else timedelta(seconds=grace))


@pytest.mark.parametrize(
    ("known", "reason", "words"),
    [
        pytest.param(GOING, "", "", id="a-pod-that-is-deleted"),
        pytest.param(WEB | {"deletion": deletion()}, "", "", id="deleted-a-moment-ago"),
        pytest.param(
            WEB | {"eviction": TOO_LONG, "lifecycle": Lifecycle.TERMINATING}, "", "", id="ended-though-it-is-wanted"
        ),
        pytest.param(
            {"finished_at": at(0), "lifecycle": Lifecycle.TERMINATING}, "", "", id="finished-its-sidecars-still-stop"
        ),
        pytest.param(WEB, "StillWanted", "remove its manifest", id="a-pod-that-is-wanted"),
        pytest.param(
            {"waiting_for": "its predecessor 1234"},
            "StillWanted",
            "it waits for its predecessor (its predecessor 1234); --uid says which is meant",
            id="a-successor-is-not-its-predecessor",
        ),
        pytest.param(FINISHED, "AlreadyDown", "is down already", id="nothing-of-it-runs"),
        pytest.param(FINISHED | {"deletion": deletion()}, "AlreadyDown", "is down already", id="deleted-and-down"),
    ],
)
def test_which_stops_are_hastened(known: dict[str, Any], reason: str, words: str) -> None:
    """Those in progress, whatever started them."""
    refusal = why_no_stop(situation(**known), asked())
    assert (refusal.reason if refusal else "") == reason
    assert words in (refusal.message if refusal else "")


@pytest.mark.parametrize(
    ("source", "known", "grace", "holds", "sooner"),
    [
        pytest.param(pod(), GOING, 5, (5, 15), 15, id="sooner"),
        pytest.param(pod(), GOING, 0, (1, 11), 19, id="as-soon-as-can-be-is-a-second"),
        pytest.param(pod(), GOING, 20, (30, 30), 0, id="to-the-second-when-it-is-over-anyway"),
        pytest.param(pod(), GOING, 100, (30, 30), 0, id="never-later"),
        pytest.param(pod(), GOING, None, (30, 30), 0, id="its-own-grace-over-again-is-later"),
        pytest.param(pod(), GOING | {"deletion": deletion(grace=300)}, None, (30, 40), 260, id="its-own-is-shorter"),
        pytest.param(
            pod(),
            WEB | {"eviction": TOO_LONG, "lifecycle": Lifecycle.TERMINATING},
            2,
            (2, 12),
            13,
            id="of-a-pod-ended-by-its-deadline",
        ),
        pytest.param(HOOKED, GOING, 5, (5, 17), 15, id="two-seconds-more-after-a-pre-stop-hook"),
        pytest.param(pod(init=["+side"]), SERVED, 5, (5, 16), 15, id="a-second-more-for-a-sidecar"),
        pytest.param(
            pod(), GOING | {"deletion": deletion(grace=1, asked=5)}, 0, (1, 11), 0, id="over-long-ago-is-killed-now"
        ),
    ],
)
def test_what_holds_then(
    source: dict[str, Any], known: dict[str, Any], grace: float | None, holds: tuple[float, float], sooner: float
) -> None:
    """The grace period, the time of SIGKILL, and the time saved; requested ten seconds after the deletion."""
    here = situation(source, Context(now=at(10)), **known)
    before = effective_grace(here).over_at
    told = stops(here, asked(grace))
    apply_signal(here, asked(grace))
    assert effective_grace(here).length == told.grace == timedelta(seconds=holds[0])
    assert (told.kills_at, told.sooner) == (at(holds[1]), timedelta(seconds=sooner))
    assert effective_grace(here).over_at == before - told.sooner
