"""When does a pod's activeDeadlineSeconds expire, and when is the next check? Includes the kubelet's own rows."""

from datetime import timedelta
from typing import Any

import pytest

from proto.temporal.pod import Lifecycle
from tests.workflows.decide.situations import Context, at, down, pod, situation, up
from workflows.decide.ending.deadline import await_deadline, deadline_exceeded
from workflows.decide.steps.pod_actions import pod_actions


@pytest.mark.parametrize(
    ("seconds", "known", "exceeded"),
    [
        pytest.param(None, {}, False, id="no-deadline"),
        pytest.param(61, {}, False, id="within-it"),
        pytest.param(60, {}, True, id="exactly-then"),
        pytest.param(30, {}, True, id="after-it"),
        pytest.param(30, {"started_at": None}, False, id="never-started"),
        pytest.param(30, {"waiting_for": "uid-0 is there"}, False, id="not-active-while-its-predecessor-is-there"),
    ],
)
def test_a_pod_that_has_been_active_for_a_minute(seconds: int | None, known: dict[str, Any], exceeded: bool) -> None:
    """Counted from status.startTime."""
    assert deadline_exceeded(situation(pod(activeDeadlineSeconds=seconds), **known)) is exceeded


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        pytest.param(310, "activeDeadlineSeconds: the pod is stopped at 12:04:10", id="soon"),
        pytest.param(60 + 86_400, "activeDeadlineSeconds: the pod is stopped at 2026-11-22 12:00:00", id="days-later"),
        pytest.param(2**31 - 1, "activeDeadlineSeconds: the pod is stopped at 2094-12-09 15:13:07", id="the-longest"),
    ],
)
def test_the_wait_has_a_name(seconds: int, words: str) -> None:
    """An operator sees it as the timer's summary."""
    (wake,) = await_deadline(situation(pod(activeDeadlineSeconds=seconds)))
    assert (wake.at, wake.summary) == (at(seconds - 60), words)


@pytest.mark.parametrize(
    ("known", "wake"),
    [
        pytest.param({"containers": {"web": up()}}, at(40), id="a-running-pod"),
        pytest.param({"lifecycle": Lifecycle.TERMINATING, "containers": {"web": up()}}, None, id="one-that-goes"),
        pytest.param({"lifecycle": Lifecycle.TERMINATED, "containers": {"web": down(0)}}, None, id="one-that-has-gone"),
    ],
)
def test_who_is_waited_for(known: dict[str, Any], wake: Any) -> None:
    """Only pods in sync."""
    plan = pod_actions(situation(pod(activeDeadlineSeconds=100), **known))
    assert (plan.wake.at if plan.wake else None) == wake


def test_the_earlier_wait_counts() -> None:
    """A restart before the deadline is not delayed by it, and vice versa."""
    loop = down(1, backoff=timedelta(seconds=40), backoff_at=at(-50))
    for seconds, expected in ((200, at(40)), (70, at(10))):
        plan = pod_actions(situation(pod(activeDeadlineSeconds=seconds), Context(), containers={"web": loop}))
        assert plan.wake
        assert plan.wake.at == expected
