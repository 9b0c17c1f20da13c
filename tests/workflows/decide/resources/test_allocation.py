"""Is a resize granted only within the node's capacity, and are the resources of a pending start known?"""

from dataclasses import replace

import pytest

from proto.temporal.activities.requests import StartContainer
from proto.temporal.activities.resize import UpdatePodSandboxResources
from proto.temporal.pod import Failure, PodJson
from proto.temporal.resources import CgroupFigures
from tests.workflows.decide.resources.resizes import (
    LARGE,
    NODE,
    SMALL,
    amounts,
    carried_out,
    of,
    resized,
    resources,
    web,
)
from tests.workflows.decide.situations import KEY, Context, at, describe_all, read, seen
from workflows.decide.record.fold import fold, fold_failure
from workflows.decide.resources.allocation import allocate, figures, grown, shrunk
from workflows.decide.resources.resources import compute
from workflows.decide.steps.pod_actions import pod_actions
from workflows.decide.versions import LOOKS_FOR_STARTS


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        pytest.param(amounts("1", "1000Mi"), amounts("500m", "500Mi"), "", id="cpu-and-memory-decrease"),
        pytest.param(amounts("1", "1000Mi"), amounts("1500m", "500Mi"), "", id="cpu-increase-memory-decrease"),
        pytest.param(amounts("1", "1000Mi"), amounts("500m", "1500Mi"), "", id="cpu-decrease-memory-increase"),
        pytest.param(
            amounts("1", "1000Mi"),
            amounts("1", "4500Mi"),
            "Node didn't have enough capacity: memory, requested: 4718592000, capacity: 4294967296",
            id="memory-beyond-what-the-node-has",
        ),
        pytest.param(
            amounts("1", "1000Mi"),
            amounts("5", "1000Mi"),
            "Node didn't have enough capacity: cpu, requested: 5000, capacity: 4000",
            id="cpu-beyond-what-the-node-has",
        ),
        pytest.param(amounts("5", "1000Mi"), amounts("5", "1500Mi"), "", id="what-it-has-already-is-not-asked-about"),
        pytest.param(
            resources(cpu_request="1"), resources(cpu_request="1", cpu_limit="64"), "", id="limits-are-not-asked-about"
        ),
    ],
)
def test_what_fits(old: PodJson, new: PodJson, message: str) -> None:
    """The rows of the kubelet's TestRetryPendingResizes about the node's capacity."""
    here = resized(of(web(old)), of(web(new)), Context(settings=NODE))
    pending, granted = here.observed.resize_pending, here.source["spec"]["containers"][0]["resources"]
    if message:
        assert pending is not None
        assert (pending.reason, pending.message) == ("Infeasible", message)
    else:
        assert pending is None
    assert compute(granted) == compute(old if message else new)
    assert (here.observed.resize is None) == bool(message)


def test_a_refusal_ends_with_the_next_listing() -> None:
    """A resize that is taken back, or made smaller."""
    here = resized(of(web(SMALL)), of(web(amounts("5", "1Gi"))), Context(settings=NODE))
    assert here.observed.resize_pending is not None
    assert allocate(here, of(web(SMALL)))["spec"]["containers"][0]["resources"] == SMALL
    assert here.observed.resize_pending is None


def test_a_node_that_is_not_known_grants_everything() -> None:
    """A run that was started by an earlier release."""
    assert resized(of(web(SMALL)), of(web(amounts("999", "9Ti")))).observed.resize_pending is None


def test_figures_grow_apart() -> None:
    """Each value separately, and no limit is more than any limit."""
    low, mixed, free = CgroupFigures(2, 1000, 64), CgroupFigures(512, 500, 128), CgroupFigures(2)
    assert grown(low, mixed) == CgroupFigures(512, 1000, 128)
    assert grown(low, free) == CgroupFigures(2, None, None)
    assert shrunk(low, mixed) == CgroupFigures(2, 500, 64)
    assert shrunk(low, free) == CgroupFigures(2, 1000, 64)
    assert figures(of(web(SMALL), web({}, "free"))) == CgroupFigures(102)


def test_a_start_under_way_is_resized_afterwards() -> None:
    """It was requested with the old spec."""
    old = of(web(SMALL))
    asked = StartContainer(KEY, "s0", 0, "sha256:1", web(SMALL), {})
    here = resized(old, of(web(LARGE)), Context(busy=(asked,)), containers={})
    assert here.observed.resize is not None
    idle = replace(here, busy={})
    fold(idle, asked, seen())
    assert carried_out(idle) == ["UpdatePodSandboxResources up", "UpdateContainerResources web"]
    assert idle.observed.resize is None


def test_a_start_that_failed_and_came_up_nevertheless() -> None:
    """A re-read finds it, with the spec at the time of its request."""
    asked = StartContainer(KEY, "s0", 0, "sha256:1", web(SMALL), {})
    here = resized(of(web(SMALL)), of(web(LARGE)), Context(busy=(asked,)), containers={})
    idle = replace(here, busy={})
    fold_failure(idle, asked, "RunContainerError", "no answer")
    read(idle, seen())
    assert carried_out(idle) == ["UpdatePodSandboxResources up", "UpdateContainerResources web"]
    assert idle.observed.resize is None


def test_a_start_that_had_failed_before_the_resize() -> None:
    """The runtime is re-read, for it may have created the container with what the spec said then."""
    here = resized(of(web(SMALL)), of(web(LARGE)), containers={}, runtime_stale=True, starts_in_doubt=True)
    assert describe_all(pod_actions(here).begin) == ["ReadPodRuntime"]
    read(here, seen())
    assert carried_out(here) == ["UpdatePodSandboxResources up", "UpdateContainerResources web"]
    assert here.observed.resize is None


def test_a_start_that_had_failed_without_effect() -> None:
    """Only the pod is resized."""
    here = resized(of(web(SMALL)), of(web(LARGE)), containers={}, runtime_stale=True, starts_in_doubt=True)
    read(here)
    assert carried_out(here)[:1] == ["UpdatePodSandboxResources up"]
    assert here.observed.resize is None


def test_earlier_behaviours_forget_a_start_that_had_failed() -> None:
    """They keep what it created as it was."""
    failures = {"container/web": Failure("RunContainerError", "no answer", at(-1))}
    early = Context(behaviour=LOOKS_FOR_STARTS - 1)
    here = resized(of(web(SMALL)), of(web(LARGE)), early, containers={}, failures=failures)
    assert describe_all(pod_actions(here).begin)[:1] == ["UpdatePodSandboxResources"]
    read(here, seen())
    assert "UpdateContainerResources web" not in carried_out(here)


def test_a_start_that_failed_asks_for_the_new_amount_next() -> None:
    """Then its resources are known."""
    asked = StartContainer(KEY, "s0", 0, "sha256:1", web(SMALL), {})
    here = resized(of(web(SMALL)), of(web(LARGE)), Context(busy=(asked,)), containers={})
    idle = replace(here, busy={})
    fold_failure(idle, asked, "RunContainerError", "no answer")
    read(idle)
    fold(idle, next(one for one in pod_actions(idle).begin if isinstance(one, UpdatePodSandboxResources)), None)
    fold(idle, replace(asked, container=web(LARGE)), seen())
    assert idle.observed.resize is None
