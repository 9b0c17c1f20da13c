"""What follows from a replay: may this code lead the run on, does the node lead the pod, or is the run another release's?"""

import pytest

from worker.host.replays.findings import LONGEST_FAILURE, Finding, found, in_short, reason
from workflows.decide.versions import CURRENT, CURRENT_NODE, OLDEST

POD = "pod/n/default/web/u1"


@pytest.mark.parametrize(
    ("kind", "behaviour", "failure", "finding"),
    [
        pytest.param("pods", CURRENT, "", Finding.FITS, id="a-replay-fits"),
        pytest.param("pods", OLDEST, "", Finding.FITS, id="also-of-an-old-behaviour"),
        pytest.param("pods", CURRENT, "TMPRL1100", Finding.DIFFERS, id="another-command-differs"),
        pytest.param("node", CURRENT_NODE, "TMPRL1100", Finding.DIFFERS, id="the-nodes-own-differs"),
        pytest.param("pods", CURRENT + 1, "failed", Finding.OTHER_RELEASE, id="a-newer-behaviour-is-another-releases"),
        pytest.param("pods", OLDEST - 1, "failed", Finding.OTHER_RELEASE, id="a-dropped-behaviour-too"),
        pytest.param("node", CURRENT_NODE + 1, "failed", Finding.OTHER_RELEASE, id="the-node-has-numbers-of-its-own"),
    ],
)
def test_what_follows(kind: str, behaviour: int, failure: str, finding: Finding) -> None:
    """A run of an unknown behaviour is never led here: its state is not for this release."""
    assert found(POD, kind, behaviour, failure).finding is finding


@pytest.mark.parametrize(
    ("failure", "short"),
    [
        pytest.param(
            'completion failed: Failure { failure: Some(Failure { message: "[TMPRL1100] no \\"x\\" here", source: "" }) }',
            '[TMPRL1100] no \\"x\\" here',
            id="the-message-inside-a-structure",
        ),
        pytest.param('Failure { message: "[TMPRL1100] cut of', "[TMPRL1100] cut of", id="also-of-one-that-was-cut-off"),
        pytest.param("RuntimeError: no", "RuntimeError: no", id="another-text-as-it-is"),
        pytest.param('message: "', 'message: "', id="an-empty-message"),
    ],
)
def test_a_failure_is_told_in_short(failure: str, short: str) -> None:
    """Operators read it in `tempolet explain`."""
    assert in_short(failure) == short


def test_a_reason_names_the_release_and_is_short() -> None:
    """A history may be anybody's."""
    one = found(POD, "pods", CURRENT, "x" * 10_000)
    assert reason("behaviour-4-abc", one.why).startswith(
        "its history does not replay with this release (behaviour-4-abc): xx"
    )
    assert len(one.why) == LONGEST_FAILURE
