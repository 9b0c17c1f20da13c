"""Does a container's status show its allocated and its actual resources?"""

from dataclasses import replace
from typing import Any

import pytest

from proto.temporal.activities.requests import StartContainer
from proto.temporal.pod import ContainerFacts, PodJson
from proto.temporal.resources import CgroupFigures, PendingResize, Resize, RuntimeResources
from tests.workflows.decide.situations import KEY, NOW, Context, container, down, pod, situation, up
from workflows.decide.record.fold import fold_failure
from workflows.decide.resources.allocation import figures
from workflows.decide.situation import Situation
from workflows.decide.status.conditions import settle
from workflows.decide.status.shown_resources import binary_quantity
from workflows.decide.status.status import pod_status
from workflows.decide.steps.pod_actions import pod_actions
from workflows.decide.versions import RESIZES_WHAT_RUNS

MI = 1024**2
HAS: PodJson = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "200m", "memory": "128Mi"}}
HAD: PodJson = {"requests": {"cpu": "50m", "memory": "32Mi"}, "limits": {"cpu": "1", "memory": "64Mi"}}
TOLD = RuntimeResources(cpu_shares=102, cpu_quota=20_000, cpu_period=100_000, memory_limit_in_bytes=128 * MI)
NONE = CgroupFigures(2)
UNDER_WAY = Resize(NONE, NONE, {"web": HAD})
GIVEN = figures(pod(containers=[container("web", resources=HAS)]))
RECORDED = Resize(GIVEN, GIVEN, {"web": HAD})
"""The pod's cgroup has what the spec says."""


def web(facts: ContainerFacts | None, resources: PodJson = HAS, **known: Any) -> Situation:
    """Build the facts of the only container."""
    containers = {} if facts is None else {"web": facts}
    return situation(pod(containers=[container("web", resources=resources)]), containers=containers, **known)


@pytest.mark.parametrize(
    ("here", "allocated", "shown"),
    [
        pytest.param(web(None), None, None, id="one-that-never-was"),
        pytest.param(web(up()), HAS["requests"], HAS, id="one-that-runs"),
        pytest.param(web(down(1)), HAS["requests"], HAS, id="one-that-has-ended"),
        pytest.param(web(up(), {}), None, {}, id="best-effort"),
        pytest.param(web(up(), resize=UNDER_WAY), HAS["requests"], HAD, id="one-that-is-still-to-be-resized"),
        pytest.param(web(down(1), resize=UNDER_WAY), HAS["requests"], HAS, id="one-that-ended-before-it-was"),
        pytest.param(web(up(resources=TOLD)), HAS["requests"], HAS, id="as-the-runtime-tells"),
        pytest.param(
            web(up(resources=replace(TOLD, cpu_quota=25_000, memory_limit_in_bytes=96 * MI))),
            HAS["requests"],
            {**HAS, "limits": {"cpu": "250m", "memory": "96Mi"}},
            id="where-that-differs",
        ),
        pytest.param(
            web(up(resources=RuntimeResources())), HAS["requests"], HAS, id="what-it-does-not-tell-is-as-asked"
        ),
        pytest.param(web(up(resources=TOLD), {}), None, {}, id="nothing-of-what-nobody-asked-for"),
        pytest.param(
            web(
                up(resources=replace(TOLD, cpu_quota=1000, cpu_shares=2)),
                {"requests": {"cpu": "1m"}, "limits": {"cpu": "1m"}},
            ),
            {"cpu": "1m"},
            {"requests": {"cpu": "1m"}, "limits": {"cpu": "1m", "memory": "128Mi"}},
            id="below-what-the-kernel-can-tell-apart",
        ),
    ],
)
def test_resources(here: Situation, allocated: PodJson | None, shown: PodJson | None) -> None:
    """The kubelet's TestConvertToAPIContainerStatusesForResources."""
    status = pod_status(here).model_dump(by_alias=True, exclude_none=True)["containerStatuses"][0]
    assert status.get("allocatedResources") == allocated
    assert status.get("resources") == shown


def test_bytes() -> None:
    """In the API's format."""
    assert [binary_quantity(one) for one in (128 * MI, 1536, 1000)] == ["128Mi", "1536", "1000"]


def conditions(here: Situation) -> dict[str, tuple[str, str | None, str | None, int | None]]:
    """Return the conditions of a resize."""
    return {
        one.type: (one.status, one.reason, one.message, one.observed_generation)
        for one in pod_status(here).conditions or []
        if "Resize" in one.type
    }


def test_conditions() -> None:
    """Pending and in progress are separate, each with its generation; an error is shown until it is resolved."""
    here = web(up(), resize=replace(UNDER_WAY, generation=3), resize_pending=PendingResize("Infeasible", "too much", 4))
    pending = ("True", "Infeasible", "too much", 4)
    assert conditions(here) == {"PodResizePending": pending, "PodResizeInProgress": ("True", None, None, 3)}
    settle(here.observed, pod_status(here).conditions or [])
    assert here.observed.condition_times["PodResizePending"] == ("True", NOW)
    (grow,) = pod_actions(here).begin
    fold_failure(here, grow, "ResizePodInPlaceError", "no such cgroup")
    assert conditions(here)["PodResizeInProgress"] == ("True", "Error", "no such cgroup", 3)


@pytest.mark.parametrize(
    ("facts", "resize", "shown"),
    [
        pytest.param(up(), RECORDED, True, id="a-container-that-runs"),
        pytest.param(down(1), RECORDED, False, id="one-that-has-ended"),
        pytest.param(
            ContainerFacts(failure_reason="RunContainerError"), RECORDED, False, id="one-that-failed-to-start"
        ),
        pytest.param(None, RECORDED, False, id="one-that-never-was"),
        pytest.param(None, Resize(NONE, NONE), True, id="the-cgroup-is-below-the-spec"),
        pytest.param(None, replace(RECORDED, least=NONE), True, id="the-cgroup-is-in-doubt"),
    ],
)
def test_in_progress_is_what_runs(facts: ContainerFacts | None, resize: Resize, *, shown: bool) -> None:
    """And the pod's cgroup: a container that does not run will start with the spec's resources (IsPodResizeInProgress)."""
    assert conditions(web(facts, resize=resize)).keys() == ({"PodResizeInProgress"} if shown else set())


def test_earlier_behaviours_count_what_does_not_run() -> None:
    """The resize is in progress until its next start."""
    recorded = {"containers": {}, "resize": RECORDED}
    here = situation(
        pod(containers=[container("web", resources=HAS)]), Context(behaviour=RESIZES_WHAT_RUNS - 1), **recorded
    )
    assert list(conditions(here)) == ["PodResizeInProgress"]


def test_in_progress_while_something_is_set() -> None:
    """A start under way may set what the spec no longer has, and what is set is known at its end."""
    start = StartContainer(KEY, "s0", 0, "sha256:1", container("web", resources=HAD), {})
    busy = Context(busy=(start,))
    here = situation(pod(containers=[container("web", resources=HAS)]), busy, containers={}, resize=RECORDED)
    assert list(conditions(here)) == ["PodResizeInProgress"]


def test_a_pod_that_is_over_has_none() -> None:
    """It is not resized any more (determinePodResizeStatus)."""
    over = web(down(0), resize=UNDER_WAY, resize_pending=PendingResize("Infeasible", "too much"))
    over.spec.restart_policy = "Never"
    assert conditions(over) == {}


def test_a_pod_that_was_never_resized_has_none() -> None:
    """And its status is as without resizes."""
    assert conditions(web(up())) == {}
