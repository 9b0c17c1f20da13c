"""Which resize is infeasible, which of several is judged first, and what does a pod use meanwhile?"""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto.kubernetes.resources.overhead import requests_and_overhead
from proto.kubernetes.source_annotations import SOURCE_ANNOTATION
from proto.temporal.pod import PodJson
from proto.temporal.pod_inputs import Rejected
from tests.workflows.decide.resources.resizes import amounts, of, policy, resources, web
from workflows.decide.resources.resizes import (
    INFEASIBLE_DETAILS,
    POD_LEVEL_OFF,
    SWAP,
    Allocation,
    ResizeSettings,
    Waiting,
    allocation_of,
    in_order,
    in_use,
    increases,
    is_judged_anew,
    pending,
    why_infeasible,
    with_allocation,
)

NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)
SWAPPING, STATIC_CPU = ResizeSettings(limited_swap=True), ResizeSettings(static_cpu=True)
STATIC_MEMORY = ResizeSettings(static_memory=True)
NO_POD_LEVEL = ResizeSettings(pod_level=False)
CPU_MANAGER = 'Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"'
MEMORY_MANAGER = 'Resize is infeasible for Guaranteed Pods alongside Memory Manager policy "Static"'
BURSTABLE = resources(memory_request="64Mi", memory_limit="128Mi")
MORE = resources(memory_request="96Mi", memory_limit="128Mi")
STATIC = {SOURCE_ANNOTATION: "file"}


def static(made: PodJson) -> PodJson:
    """Return the pod as one of a manifest."""
    return {**made, "metadata": {**made["metadata"], "annotations": STATIC}}


def of_api(*containers: PodJson, **spec: Any) -> PodJson:
    """Build a pod of the API."""
    made = of(*containers, **spec)
    return {**made, "metadata": {**made["metadata"], "annotations": {SOURCE_ANNOTATION: "api"}}}


@pytest.mark.parametrize(
    ("before", "after", "node", "why"),
    [
        pytest.param(
            of_api(web(amounts("1", "1Gi"))),
            of_api(web(amounts("999", "9Ti"))),
            ResizeSettings(),
            "",
            id="too-much-may-fit-later",
        ),
        pytest.param(of_api(web(BURSTABLE)), of_api(web(MORE)), SWAPPING, SWAP, id="memory-that-may-be-swapped"),
        pytest.param(of_api(web(BURSTABLE)), of_api(web(MORE)), ResizeSettings(), "", id="memory-without-swap"),
        pytest.param(static(of(web(BURSTABLE))), static(of(web(MORE))), SWAPPING, "", id="a-static-pod-never-swaps"),
        pytest.param(
            of_api(web(BURSTABLE), priority=2_000_000_000),
            of_api(web(MORE), priority=2_000_000_000),
            SWAPPING,
            "",
            id="nor-does-a-critical-one",
        ),
        pytest.param(
            of_api(web(BURSTABLE, resizePolicy=policy("N", "R"))),
            of_api(web(MORE, resizePolicy=policy("N", "R"))),
            SWAPPING,
            "",
            id="a-restart-gives-it-new-swap",
        ),
        pytest.param(
            of_api(web(BURSTABLE)),
            of_api(web({**BURSTABLE, "limits": {"memory": "256Mi"}})),
            SWAPPING,
            "",
            id="only-the-request-decides-about-swap",
        ),
        pytest.param(
            of_api(web(amounts("1", "1Gi"))),
            of_api(web(amounts("1", "2Gi"))),
            SWAPPING,
            "",
            id="guaranteed-pods-never-swap",
        ),
        pytest.param(
            of_api(web(amounts("1", "1Gi"))),
            of_api(web(amounts("2", "1Gi"))),
            STATIC_CPU,
            CPU_MANAGER,
            id="a-static-cpu-manager",
        ),
        pytest.param(
            of_api(web(amounts("1", "1Gi"))),
            of_api(web(amounts("1", "2Gi"))),
            STATIC_CPU,
            "",
            id="which-has-no-say-about-memory",
        ),
        pytest.param(
            of_api(web(amounts("1", "1Gi"))),
            of_api(web(amounts("1", "2Gi"))),
            STATIC_MEMORY,
            MEMORY_MANAGER,
            id="a-static-memory-manager",
        ),
        pytest.param(
            of_api(web(BURSTABLE)), of_api(web(MORE)), STATIC_MEMORY, "", id="which-has-no-say-about-burstable-pods"
        ),
        pytest.param(
            of_api(web({}), resources=BURSTABLE),
            of_api(web({}), resources=MORE),
            NO_POD_LEVEL,
            POD_LEVEL_OFF,
            id="the-gate-is-off",
        ),
        pytest.param(
            of_api(web({}), resources=BURSTABLE),
            of_api(web({}), resources=MORE),
            ResizeSettings(),
            "",
            id="the-gate-is-on",
        ),
    ],
)
def test_what_is_infeasible(before: PodJson, after: PodJson, node: ResizeSettings, why: str) -> None:
    """The rows of the kubelet's podResizesAdmitHandler."""
    assert why_infeasible(after, before, node) == why
    assert not why or why in INFEASIBLE_DETAILS


def test_a_pod_has_what_it_was_granted_and_asks_for_nothing_else_if_that_is_the_same() -> None:
    """However the amounts are written; an init container counts, too."""
    asked = of(web({"requests": {"cpu": "1000m"}}), initContainers=[web(amounts("1", "1Gi"), "init")])
    granted = allocation_of(
        of(web({"requests": {"cpu": "1"}, "limits": {}}), initContainers=[web(amounts("1", "1024Mi"), "init")])
    )
    assert with_allocation(asked, granted) is asked
    less = Allocation({**granted.containers, "init": amounts("1", "512Mi"), "gone": amounts("1", "1Mi")})
    found = with_allocation(asked, less)
    assert found["spec"]["initContainers"][0]["resources"] == amounts("1", "512Mi")
    assert found["spec"]["containers"] == asked["spec"]["containers"]
    assert with_allocation(asked, allocation_of(found)) == found


@pytest.mark.parametrize(
    ("own", "granted", "found"),
    [
        pytest.param(MORE, BURSTABLE, BURSTABLE, id="another"),
        pytest.param(MORE, None, None, id="none-was-granted"),
        pytest.param(None, MORE, MORE, id="it-is-no-longer-asked-for"),
    ],
)
def test_the_pods_own_resources_are_granted_like_those_of_a_container(
    own: PodJson | None, granted: PodJson | None, found: PodJson | None
) -> None:
    """Of `spec.resources`."""
    asked = of(web({})) if own is None else of(web({}), resources=own)
    assert with_allocation(asked, Allocation({"web": {}}, granted))["spec"].get("resources") == found


@pytest.mark.parametrize(
    ("before", "after", "more"),
    [
        pytest.param(amounts("1", "1Gi"), amounts("2", "1Gi"), True, id="cpu"),
        pytest.param(amounts("1", "1Gi"), amounts("500m", "2Gi"), True, id="memory-for-cpu"),
        pytest.param(amounts("1", "1Gi"), amounts("1", "1Gi"), False, id="the-same"),
        pytest.param(resources(cpu_request="1"), resources(cpu_request="1", cpu_limit="9"), False, id="a-limit"),
    ],
)
def test_what_asks_for_more(before: PodJson, after: PodJson, more: bool) -> None:
    """Requests alone."""
    assert increases(of(web(after)), of(web(before))) is more
    assert is_judged_anew(of(web(before)), of(web(after))) is (before != after)


ORDERED = [
    Waiting("shrinks", increases=False),
    Waiting("important", increases=True, priority=5),
    Waiting("guaranteed", increases=True, guaranteed=True),
    Waiting("old", increases=True, since=NOON),
    Waiting("newer", increases=True, since=NOON + timedelta(seconds=1)),
    Waiting("new", increases=True),
    Waiting("unimportant", increases=True, priority=-1, guaranteed=True, since=NOON),
]


@given(st.permutations(ORDERED))
def test_in_which_order_resizes_are_judged(found: list[Waiting]) -> None:
    """No increase, priority, QoS, and who waits longest; in whatever order they come."""
    assert in_order(found) == [one.uid for one in ORDERED]


WAITING = st.builds(
    Waiting,
    uid=st.uuids().map(str),
    increases=st.booleans(),
    priority=st.integers(-2, 2),
    guaranteed=st.booleans(),
    since=st.none() | st.integers(0, 3).map(lambda seconds: NOON + timedelta(seconds=seconds)),
)


@given(st.lists(WAITING, max_size=12))
def test_no_resize_is_judged_before_one_that_goes_first(found: list[Waiting]) -> None:
    """Each pair by the rules of sortPendingResizes; equals keep their order, and none is lost."""
    by_uid = {one.uid: one for one in found}
    order = [by_uid[uid] for uid in in_order(found)]
    assert sorted(by_uid) == sorted(one.uid for one in order)
    for place, first in enumerate(order):
        for second in order[place + 1 :]:
            assert not goes_first(second, first)
            if not goes_first(first, second):
                assert found.index(first) < found.index(second)


def goes_first(one: Waiting, other: Waiting) -> bool:
    """Compare two as the kubelet does, rule by rule."""
    if one.increases != other.increases or not one.increases:
        return other.increases and not one.increases
    if one.priority != other.priority:
        return one.priority > other.priority
    if one.guaranteed != other.guaranteed:
        return one.guaranteed
    if one.since is None or other.since is None:
        return one.since is not None and other.since is None
    return one.since < other.since


@pytest.mark.parametrize(
    ("why", "reason"),
    [
        pytest.param(Rejected("OutOfcpu", "no cpu"), "Deferred", id="no-room"),
        pytest.param(Rejected("NodeShutdown", "it goes down"), "Deferred", id="whatever-it-is"),
        pytest.param(Rejected("Infeasible", "never"), "Infeasible", id="never"),
    ],
)
def test_what_the_condition_says(why: Rejected, reason: str) -> None:
    """Its reason, and for the event the cause and what the source asks for."""
    asked = of(web(amounts("1", "1Gi")))
    asked["metadata"] = {**asked["metadata"], "generation": 3}
    found = pending(asked, why)
    assert (found.reason, found.message, found.generation, found.cause) == (reason, why.message, 3, why.reason)
    assert found.asked == {"web": amounts("1", "1Gi")}


def shown(name: str, cpu: str, allocated: str = "", **more: Any) -> PodJson:
    """Build a container's status."""
    status = {"name": name, "resources": {"requests": {"cpu": cpu}}, **more}
    return status | ({"allocatedResources": {"cpu": allocated}} if allocated else {})


@pytest.mark.parametrize(
    ("status", "milli"),
    [
        pytest.param({}, 1000, id="nothing-is-shown-yet"),
        pytest.param({"containerStatuses": [shown("web", "2")]}, 2000, id="it-still-has-more"),
        pytest.param({"containerStatuses": [shown("web", "500m")]}, 1000, id="it-does-not-have-it-yet"),
        pytest.param({"containerStatuses": [shown("web", "1", "3")]}, 3000, id="it-was-granted-more"),
        pytest.param(
            {"containerStatuses": [{"name": "web", "allocatedResources": {"cpu": "3"}}]}, 1000, id="it-never-started"
        ),
        pytest.param({"initContainerStatuses": [shown("first", "8")]}, 1000, id="what-an-init-container-had-is-over"),
    ],
)
def test_what_a_pod_uses_while_it_is_resized(status: PodJson, milli: int) -> None:
    """The most of what it was granted, and what its status shows."""
    pod = of(web(resources(cpu_request="1")), initContainers=[web({}, "first")])
    found = in_use(pod, status)
    assert requests_and_overhead(found)["cpu"].milli == milli
    assert (found is pod) == (milli == 1000)
