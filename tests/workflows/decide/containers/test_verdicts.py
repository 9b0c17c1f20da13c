"""How is a probe's verdict applied, and what happens to the probing when its container or pod ends?"""

import pytest

from proto.temporal.pod import Lifecycle, ProbeKind
from proto.temporal.signals import ProbeVerdict
from tests.workflows.decide.situations import Context, deletion, describe_all, down, pod, seen, situation, starting, up
from tests.workflows.decide.steps.test_probes import ALL, BAD, GOOD, PROBING, here, probed
from workflows.decide.actions import holds_reread, is_endless
from workflows.decide.record.fold import fold, fold_failure
from workflows.decide.record.signals import apply_signal
from workflows.decide.steps.pod_actions import pod_actions


def verdict(success: bool, sequence: int = 1, container_id: str = "web-0") -> ProbeVerdict:
    """Build a readiness verdict."""
    return ProbeVerdict("web", container_id, ProbeKind.READINESS, success, "said", sequence)


@pytest.mark.parametrize(
    ("verdicts", "success"),
    [
        pytest.param([verdict(True)], True, id="the-first"),
        pytest.param([verdict(True), verdict(False, 2)], False, id="the-next"),
        pytest.param([verdict(False, 2), verdict(True)], False, id="a-late-one-is-too-late"),
        pytest.param([verdict(True), verdict(False)], True, id="a-number-counts-once"),
        pytest.param([verdict(True), verdict(False, 2, "web-7")], True, id="another-instances-is-not-its"),
    ],
)
def test_verdicts_are_written_down(verdicts: list[ProbeVerdict], success: bool) -> None:
    """Verdicts that are late, repeated or for another instance change nothing."""
    found = here(probed(**ALL), up())
    for one in verdicts:
        apply_signal(found, one)
    assert found.observed.containers["web"].probes[ProbeKind.READINESS].success is success
    assert found.observed.signals == len(verdicts)


def test_a_verdict_comes_too_late_for_one_that_ended() -> None:
    """The exit counts; a verdict for an unknown container is ignored."""
    found = here(probed(**ALL), down(1))
    apply_signal(found, verdict(False))
    assert found.observed.containers["web"].probes == {}
    apply_signal(situation(pod()), verdict(True))


def test_a_new_instance_begins_with_no_verdicts() -> None:
    """The previous instance's verdicts don't apply to it."""
    found = here(probed(**ALL), down(1, probes={ProbeKind.LIVENESS: BAD, ProbeKind.READINESS: GOOD}))
    fold(found, starting(attempt=1), seen(attempt=1))
    assert found.observed.containers["web"].probes == {}


def test_probing_holds_nothing_up() -> None:
    """No re-read of the runtime, no undo, no continue-as-new waits for it."""
    assert is_endless(PROBING)
    assert not holds_reread(PROBING)
    gone = here(probed(**ALL), down(0), Context(busy=(PROBING,)), deletion=deletion(), lifecycle=Lifecycle.TERMINATING)
    assert describe_all(pod_actions(gone).begin) == ["StopPodSandbox"]
    fold_failure(gone, PROBING, "UnexpectedError", "boom")
    assert not gone.observed.runtime_stale
    fold(gone, PROBING, None)
    assert gone.observed.failures == {}
