"""When does a row of outcomes become a verdict? (pkg/kubelet/prober/worker_test.go TestFailureThreshold, TestSuccessThreshold)"""

import pytest

from activities.probes.counting import MAX_MESSAGE, Thresholds, count, has_settled
from activities.probes.outcome import Outcome
from proto.temporal.activities.heartbeats import ProbeProgress
from proto.temporal.pod import ProbeKind

GOOD, BAD = Outcome(success=True), Outcome(success=False, output="500")


@pytest.mark.parametrize(
    ("begin", "success", "failure", "outcomes", "verdicts"),
    [
        pytest.param(None, 1, 3, "g", [True], id="one-success-is-enough"),
        pytest.param(None, 3, 3, "ggg", [None, None, True], id="three-are-needed"),
        pytest.param(None, 1, 3, "bbb", [None, None, False], id="three-failures-are-a-verdict"),
        pytest.param(True, 1, 3, "bbgbbb", [True, True, True, True, True, False], id="a-success-between-begins-anew"),
        pytest.param(False, 3, 1, "ggbggg", [False, False, False, False, False, True], id="a-failure-between-too"),
        pytest.param(True, 1, 1, "b", [False], id="one-failure-when-one-is-enough"),
        pytest.param(True, 1, 3, "bbbb", [True, True, False, False], id="a-verdict-stands"),
    ],
)
def test_outcomes(begin: bool | None, success: int, failure: int, outcomes: str, verdicts: list[bool | None]) -> None:
    """The verdict after each outcome."""
    progress = ProbeProgress(verdict=begin)
    found = []
    for one in outcomes:
        count(progress, GOOD if one == "g" else BAD, Thresholds(success, failure))
        found.append(progress.verdict)
    assert found == verdicts


def test_each_turn_is_numbered_and_to_be_told() -> None:
    """A verdict that stands is not told again."""
    progress, one = ProbeProgress(), Thresholds(1, 1)
    count(progress, GOOD, one)
    assert (progress.sequence, progress.told) == (1, False)
    progress.told = True
    count(progress, GOOD, one)
    assert (progress.sequence, progress.told) == (1, True)
    count(progress, Outcome(success=False, output="x" * 5000), one)
    assert (progress.sequence, progress.told, progress.message) == (2, False, "x" * MAX_MESSAGE)


@pytest.mark.parametrize(
    ("output", "kept"),
    [
        pytest.param("x" * 1025, 1024, id="one-byte-a-character"),
        pytest.param("\N{CJK UNIFIED IDEOGRAPH-4E00}" * 1024, 1023, id="three-bytes-a-character"),
        pytest.param("\N{CJK UNIFIED IDEOGRAPH-20000}" * 1024, 1024, id="four-bytes-a-character"),
        pytest.param("\udc80" * 2000, 1024, id="no-characters-at-all"),
    ],
)
def test_an_output_is_cut_by_bytes(output: str, kept: int) -> None:
    """What a container says fills a history by its bytes, and is cut between two characters."""
    progress = ProbeProgress()
    count(progress, Outcome(success=False, output=output), Thresholds(1, 1))
    assert len(progress.message.encode()) == kept


@pytest.mark.parametrize(
    ("kind", "verdict", "settled"),
    [
        pytest.param(ProbeKind.STARTUP, None, False, id="startup-goes-on-until-it-knows"),
        pytest.param(ProbeKind.STARTUP, True, True, id="startup-ends-with-success"),
        pytest.param(ProbeKind.STARTUP, False, True, id="startup-ends-with-failure"),
        pytest.param(ProbeKind.LIVENESS, True, False, id="liveness-goes-on"),
        pytest.param(ProbeKind.LIVENESS, False, True, id="liveness-is-on-hold-after-a-failure"),
        pytest.param(ProbeKind.READINESS, False, False, id="readiness-never-ends"),
    ],
)
def test_what_is_probed_no_more(kind: ProbeKind, verdict: bool | None, settled: bool) -> None:
    """Until there is another instance (worker_test.go TestOnHoldOnLivenessOrStartupCheckFailure)."""
    assert has_settled(kind, verdict=verdict) is settled


def test_thresholds_come_from_the_probe() -> None:
    """With Kubernetes' defaults."""
    assert Thresholds.of({}) == Thresholds(1, 3)
    assert Thresholds.of({"successThreshold": 2, "failureThreshold": 5}) == Thresholds(2, 5)
