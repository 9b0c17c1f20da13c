"""Which resize this node grants, and which of several is judged first: the pure rules of the kubelet's allocation manager.

Asked by the poller (`worker/poller/resizes/`), which knows what the node's other pods have. The pod's workflow is then listed
the pod with the resources that are granted. Source: pkg/kubelet/allocation of 1.36.3 (handlers.go, allocation_manager.go).
The gate InPlacePodVerticalScaling is locked to true there, so it never makes a resize infeasible.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from proto.kubernetes.resources.oom_score import is_critical_by_source
from proto.kubernetes.resources.overhead import requests_and_overhead
from proto.kubernetes.resources.qos import QosClass, all_containers, qos_class, resource_list
from proto.kubernetes.resources.quantity import ZERO, Quantity
from proto.temporal.pod import PodJson
from proto.temporal.pod_inputs import Rejected
from proto.temporal.resources import PendingResize
from workflows.decide.resources.resources import INFEASIBLE, resizable, resources_by_name, with_resources

DEFERRED: Final = "Deferred"
RESTART_CONTAINER: Final = "RestartContainer"
POD_LEVEL_OFF: Final = "InPlacePodLevelResourcesVerticalScaling is disabled"
SWAP: Final = "In-place resize of containers with swap is not supported."
_GUARANTEED: Final = "Resize is infeasible for Guaranteed Pods alongside "
STATIC_CPU: Final = f'{_GUARANTEED}CPU Manager policy "static"'
STATIC_MEMORY: Final = f'{_GUARANTEED}Memory Manager policy "Static"'
INFEASIBLE_DETAILS: Final[Mapping[str, str]] = {
    SWAP: "swap_limitation",
    POD_LEVEL_OFF: "plr_feature_gate_off",
    STATIC_CPU: "guaranteed_pod_cpu_manager_static_policy",
    STATIC_MEMORY: "guaranteed_pod_memory_manager_static_policy",
}
"""How kubelet_pod_infeasible_resizes_total names the reasons."""
_KINDS: Final = ("requests", "limits")


@dataclass(frozen=True, slots=True)
class Allocation:
    """The resources that were granted to a pod (state.PodResourceInfo)."""

    containers: Mapping[str, PodJson] = field(default_factory=dict)
    """By name; init containers, too."""
    pod: PodJson | None = None
    """Its own `spec.resources`."""


@dataclass(frozen=True, slots=True)
class ResizeSettings:
    """The node's settings that make a resize infeasible."""

    pod_level: bool = True
    """The gate InPlacePodLevelResourcesVerticalScaling."""
    limited_swap: bool = False
    """Containers may swap: memorySwap.swapBehavior is LimitedSwap, with cgroup v2 and a kernel that accounts swap."""
    static_cpu: bool = False
    """The CPU manager gives Guaranteed pods cpus of their own (cpuManagerPolicy: static)."""
    static_memory: bool = False
    """The same for memory (memoryManagerPolicy: Static)."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A resize that is to be judged."""

    uid: str
    increases: bool
    priority: int = 0
    guaranteed: bool = False
    since: datetime | None = None
    """When it was first deferred; None if it was not judged yet."""


def allocation_of(pod: PodJson) -> Allocation:
    """Return what a pod has when it is admitted, or its resize is granted (allocationFromPod)."""
    return Allocation(resources_by_name(pod), pod["spec"].get("resources"))


def with_allocation(pod: PodJson, granted: Allocation) -> PodJson:
    """Return the pod with what it was granted; the same object if it asks for nothing else (UpdatePodFromAllocation)."""
    asked = resources_by_name(pod)
    others = {
        name: given for name, given in granted.containers.items() if name in asked and not is_same(asked[name], given)
    }
    found = with_resources(pod, {**asked, **others}) if others else pod
    if is_same(pod["spec"].get("resources"), granted.pod):
        return found
    spec = {name: value for name, value in found["spec"].items() if name != "resources"}
    return {**found, "spec": spec if granted.pod is None else {**spec, "resources": granted.pod}}


def is_same(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> bool:
    """Report whether two `resources` ask for the same amounts, however they are written; none is not the same as empty."""
    if one is None or other is None:
        return one is other
    amounts = [[resource_list({"resources": resources}, kind) for kind in _KINDS] for resources in (one, other)]
    return amounts[0] == amounts[1] and (one.get("claims") or []) == (other.get("claims") or [])


def why_infeasible(pod: PodJson, allocated: PodJson, node: ResizeSettings) -> str:
    """Return why this node can never grant a resize; empty if it can once there is room (podResizesAdmitHandler)."""
    if node.limited_swap and _resizes_swapping(pod, allocated):
        return SWAP
    if not node.pod_level and not is_same(pod["spec"].get("resources"), allocated["spec"].get("resources")):
        return POD_LEVEL_OFF
    if qos_class(pod) is not QosClass.GUARANTEED:
        return ""
    for is_static, resource, why in (
        (node.static_cpu, "cpu", STATIC_CPU),
        (node.static_memory, "memory", STATIC_MEMORY),
    ):
        if is_static and _requested(pod, resource) != _requested(allocated, resource):
            return why
    return ""


def increases(pod: PodJson, allocated: PodJson) -> bool:
    """Report whether a resize asks for more cpu or memory (isResizeIncreasingRequests)."""
    before, after = requests_and_overhead(allocated), requests_and_overhead(pod)
    return any(after.get(name, ZERO) > before.get(name, ZERO) for name in ("cpu", "memory"))


def waiting(pod: PodJson, allocated: PodJson, since: datetime | None) -> Waiting:
    """Return what decides when a resize is judged."""
    return Waiting(
        uid=pod["metadata"]["uid"],
        increases=increases(pod, allocated),
        priority=pod["spec"].get("priority") or 0,
        guaranteed=qos_class(pod) is QosClass.GUARANTEED,
        since=since,
    )


def in_order(found: Iterable[Waiting]) -> list[str]:
    """Return the uids in the order in which their resizes are judged (sortPendingResizes).

    First those that ask for no more; then by priority; Guaranteed pods; and who waits longest. Equals keep their order. Of several
    that ask for no more the kubelet's order means nothing, because its comparison contradicts itself; so do two that
    were not judged yet.
    """
    latest = datetime.max.replace(tzinfo=UTC)

    def place(one: Waiting) -> tuple[bool, int, bool, bool, datetime]:
        if not one.increases:
            return False, 0, False, False, latest
        return True, -one.priority, not one.guaranteed, one.since is None, one.since or latest

    return [one.uid for one in sorted(found, key=place)]


def pending(pod: PodJson, why: Rejected) -> PendingResize:
    """Return what the condition PodResizePending says; whatever is not infeasible is deferred (SetPodResizePendingCondition)."""
    return PendingResize(
        reason=INFEASIBLE if why.reason == INFEASIBLE else DEFERRED,
        message=why.message,
        generation=pod["metadata"].get("generation") or None,
        cause=why.reason,
        asked=resources_by_name(pod),
    )


def in_use(allocated: PodJson, status: Mapping[str, Any]) -> PodJson:
    """Return a pod whose containers request what they were granted or still have, whichever is more.

    So room that a resize frees is only given away once it is free (component-helpers resource determineEffectiveRequests).
    """
    shown = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    has = {one["name"]: one for one in shown if one.get("resources")}
    asked = resources_by_name(allocated)
    more = {}
    for name in (str(one["name"]) for one in resizable(allocated)):
        if name not in has:
            continue
        resources = asked[name]
        known = [has[name]["resources"].get("requests") or {}, has[name].get("allocatedResources") or {}]
        most = _most([resources.get("requests") or {}, *known])
        if most != (resources.get("requests") or {}):
            more[name] = {**resources, "requests": most}
    return with_resources(allocated, {**asked, **more}) if more else allocated


def is_judged_anew(before: PodJson, now: PodJson) -> bool:
    """Report whether an update changes resources of a pod, so that its resize is judged (recordResizeOperations)."""
    return not (
        is_same(before["spec"].get("resources"), now["spec"].get("resources"))
        and _all_same(resources_by_name(before), resources_by_name(now))
    )


def _all_same(before: Mapping[str, PodJson], now: Mapping[str, PodJson]) -> bool:
    return before.keys() == now.keys() and all(is_same(before[name], now[name]) for name in now)


def _most(lists: list[Mapping[str, str]]) -> dict[str, str]:
    """Return the highest amount of each resource, as the first list writes it where that is enough."""
    found: dict[str, str] = {}
    for amounts in lists:
        parsed = resource_list({"resources": {"requests": {**found, **amounts}}}, "requests")
        kept = resource_list({"resources": {"requests": found}}, "requests")
        found |= {name: amounts[name] for name in amounts if name not in kept or parsed[name] > kept[name]}
    return found


def _requested(pod: PodJson, resource: str) -> list[tuple[str, Quantity]]:
    return [(str(one["name"]), resource_list(one, "requests").get(resource, ZERO)) for one in all_containers(pod)]


def _resizes_swapping(pod: PodJson, allocated: PodJson) -> bool:
    """Report whether the memory of a container that may swap changes without a restart (disallowResizeForSwappableContainers)."""
    before = {str(one["name"]): one for one in all_containers(allocated)}
    for container in all_containers(pod):
        old = before.get(str(container["name"]))
        if old is None or _memory(container, "requests") == _memory(old, "requests") or _restarts_for_memory(old):
            continue
        if _may_swap(pod, container) or _may_swap(allocated, old):
            return True
    return False


def _may_swap(pod: PodJson, container: Mapping[str, Any]) -> bool:
    """Report whether a container has swap where the node allows it (GetContainerSwapBehavior)."""
    if is_critical_by_source(pod) or qos_class(pod) is not QosClass.BURSTABLE:
        return False
    return _memory(container, "requests") != _memory(container, "limits")


def _memory(container: Mapping[str, Any], kind: str) -> Quantity:
    return resource_list(container, kind).get("memory", ZERO)


def _restarts_for_memory(container: Mapping[str, Any]) -> bool:
    policies = container.get("resizePolicy") or ()
    policy: Mapping[str, Any] = next((one for one in policies if one.get("resourceName") == "memory"), {})
    return policy.get("restartPolicy") == RESTART_CONTAINER
