"""The state of a resize: what was granted, what live containers and the pod's cgroup still have, and when it is done.

Called with a listing that is applied in place. It has the resources that the node grants (`resizes.py`), and
`steps/resize.py` carries that out. What is not granted is the condition PodResizePending. Listings of earlier releases have
what the source asks for, and whether this node has so much is decided here (`resources.granted`). During a resize
`Observed` records what live containers still have; otherwise everything has what the spec says.
"""

from collections.abc import Iterator
from typing import Final

from proto.kubernetes.resources.node_resources import NodeResources
from proto.kubernetes.resources.resources import pod_resources
from proto.temporal.activities.requests import RunPodSandbox, StartContainer
from proto.temporal.activities.resize import UpdateContainerResources, UpdatePodSandboxResources
from proto.temporal.pod import Observed, PodJson
from proto.temporal.resources import CgroupFigures, PendingResize, Resize
from workflows.decide.keys import RESOURCES_KEY, SANDBOX_KEY, container_key
from workflows.decide.resources.resources import INFEASIBLE, compute, granted, resources_by_name
from workflows.decide.situation import Situation, is_live, is_start_in_doubt
from workflows.decide.versions import LOOKS_FOR_STARTS, RESIZES_WHAT_RUNS

GIVING: Final = (StartContainer, RunPodSandbox, UpdateContainerResources, UpdatePodSandboxResources)
"""While one of these is under way, it may set resources that the spec no longer has."""
ANY_NODE: Final = NodeResources(memory_capacity=1)
"""For figures that are only compared with one another."""


def figures(pod: PodJson) -> CgroupFigures:
    """Return what a pod's cgroup is set to."""
    found = pod_resources(pod, ANY_NODE)
    return CgroupFigures(found.cpu_shares, found.cpu_quota, found.memory_limit)


def grown(now: CgroupFigures, wanted: CgroupFigures) -> CgroupFigures:
    """Return a cgroup's figures after raising only; no limit is more than any limit."""
    return CgroupFigures(
        max(now.cpu_shares, wanted.cpu_shares),
        _higher(now.cpu_quota, wanted.cpu_quota),
        _higher(now.memory_limit, wanted.memory_limit),
    )


def shrunk(now: CgroupFigures, wanted: CgroupFigures) -> CgroupFigures:
    """Return a cgroup's figures after lowering only."""
    return CgroupFigures(
        min(now.cpu_shares, wanted.cpu_shares),
        _lower(now.cpu_quota, wanted.cpu_quota),
        _lower(now.memory_limit, wanted.memory_limit),
    )


def _lower(one: int | None, other: int | None) -> int | None:
    return min((amount for amount in (one, other) if amount is not None), default=None)


def _higher(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else max(one, other)


def allocate(situation: Situation, pod: PodJson, *, decided: bool = False) -> PodJson:
    """Grant the resources of an edit or record why not; returns the pod with the resources that it is granted.

    `decided`: the node has decided, and the edit has what it grants.
    """
    observed, source = situation.observed, situation.source
    generation = pod["metadata"].get("generation") or None
    if not decided:
        pod, why = granted(source, pod, situation.settings.allocatable)
        observed.resize_pending = PendingResize(INFEASIBLE, why, generation) if why else None
    before, after = resources_by_name(source), resources_by_name(pod)
    changed = [name for name in after if compute(before[name]) != compute(after[name])]
    inherit = list(inheriting(source, pod)) if decided else []
    if not changed and not inherit and not (decided and figures(source) != figures(pod)):
        return pod
    resize = observed.resize or Resize(figures(source), figures(source))
    for name in {*changed, *inherit}:
        if is_live(situation.facts(name)) or is_start_in_doubt(situation):
            resize.containers.setdefault(name, before[name])
    resize.doubtful = tuple(dict.fromkeys((*resize.doubtful, *(one for one in inherit if one in resize.containers))))
    resize.generation = generation
    observed.resize = resize
    forget_failures(observed)
    settle(situation, pod)
    return pod


def inheriting(old: PodJson, new: PodJson) -> Iterator[str]:
    """Name the containers that have no limit of their own where the pod's own limit changes: they have the pod's."""
    before, after = (compute(pod["spec"].get("resources") or {}) for pod in (old, new))
    for name, resources in resources_by_name(new).items():
        own = compute(resources)
        cpu = not own.cpu_limit and before.cpu_limit != after.cpu_limit
        if cpu or (not own.memory_limit and before.memory_limit != after.memory_limit):
            yield name


def current_resources(situation: Situation, name: str) -> PodJson:
    """Return what a container's live instance has: what its spec says unless a resize is under way."""
    resize = situation.observed.resize
    known = resize.containers.get(name) if resize else None
    return resources_by_name(situation.source)[name] if known is None else known


def container_given(situation: Situation, name: str, resources: PodJson) -> None:
    """Record what a container's newest instance has; it differs from the spec only during a resize."""
    if resize := situation.observed.resize:
        resize.containers[name] = resources
        resize.doubtful = tuple(one for one in resize.doubtful if one != name)


def start_failed(situation: Situation, action: StartContainer) -> None:
    """Record that a failed start may have created the container, with the resources of its request."""
    if resize := situation.observed.resize:
        resize.containers[action.container["name"]] = action.container.get("resources") or {}


def container_in_doubt(situation: Situation, name: str) -> None:
    """Record that a container's resources are unknown, so that they are set again."""
    resize = situation.observed.resize
    if resize and name in resize.containers:
        resize.doubtful = (*resize.doubtful, *(() if name in resize.doubtful else (name,)))


def cgroup_given(situation: Situation, spec: PodJson, *, growing: bool = False) -> None:
    """Record what the pod's cgroup was set to."""
    if resize := situation.observed.resize:
        given = figures(spec)
        resize.cgroup = grown(resize.cgroup, given) if growing else given
        resize.least = grown(resize.least, given) if growing else given


def cgroup_in_doubt(situation: Situation, spec: PodJson) -> None:
    """Record that the pod's cgroup may have been set to this."""
    if resize := situation.observed.resize:
        given = figures(spec)
        resize.cgroup, resize.least = grown(resize.cgroup, given), shrunk(resize.least, given)


def settle(situation: Situation, pod: PodJson | None = None) -> None:
    """Forget a resize that is done, and the containers that have ended since.

    What a failed start may have created is kept until a re-read of the runtime; before behaviour 7, until the next start.
    """
    observed = situation.observed
    resize = observed.resize
    if resize is None:
        return
    wanted = resources_by_name(pod or situation.source)  # it never names ephemeral containers
    doubtful = {*resize.doubtful, *updated_now(situation)}
    resize.containers = {
        name: resources
        for name, resources in resize.containers.items()
        if name in wanted
        and (is_live(situation.facts(name)) or _may_exist(situation, name))
        and (name in doubtful or compute(resources) != compute(wanted[name]))
    }
    if not resize.containers and not _is_being_given(situation, resize, pod or situation.source):
        observed.resize = None
        forget_failures(observed)


def _may_exist(situation: Situation, name: str) -> bool:
    """Report whether a failed start may have created a container."""
    if situation.behaviour >= LOOKS_FOR_STARTS:
        return is_start_in_doubt(situation)
    return container_key(name) in situation.observed.failures


def _is_being_given(situation: Situation, resize: Resize, pod: PodJson) -> bool:
    """Report whether resources are being set, or the pod's cgroup has not what the spec says.

    Without a sandbox nothing has; but a failed try may have made one, which a re-read finds.
    """
    if any(isinstance(one, GIVING) for one in situation.busy.values()):
        return True
    if not situation.sandbox_id:
        return situation.behaviour >= RESIZES_WHAT_RUNS and SANDBOX_KEY in situation.observed.failures
    return not has_cgroup(resize, pod)


def has_cgroup(resize: Resize, pod: PodJson) -> bool:
    """Report whether the pod's cgroup certainly has what the spec says."""
    return resize.cgroup == resize.least == figures(pod)


def in_progress(situation: Situation, resize: Resize) -> bool:
    """Report whether a resize is shown as in progress.

    A container that does not run has nothing to be changed (pkg/kubelet/kuberuntime/kuberuntime_manager.go
    IsPodResizeInProgress). It may still be recorded, because a failed start may have created it.
    """
    if situation.behaviour < RESIZES_WHAT_RUNS:
        return True
    live = any(is_live(situation.facts(name)) for name in resize.containers)
    return live or (bool(situation.sandbox_id) and _is_being_given(situation, resize, situation.source))


def updated_now(situation: Situation) -> list[str]:
    """Name the containers whose update is under way; its answer will say what they have."""
    return [one.name for one in situation.busy.values() if isinstance(one, UpdateContainerResources)]


def forget_failures(observed: Observed) -> None:
    """Clear the retry delays of a resize that is done or replaced by another one."""
    for subject in [one for one in observed.failures if one.startswith(RESOURCES_KEY)]:
        del observed.failures[subject]


def must_grow(situation: Situation) -> bool:
    """Report whether the pod's cgroup is below what the spec gives it, or may be after what is under way."""
    resize = situation.observed.resize
    if resize is None:
        return False
    least = resize.least
    match situation.busy.get(RESOURCES_KEY):
        case UpdatePodSandboxResources(sandbox_spec=spec, growing=False):
            least = shrunk(least, figures(spec))
    return grown(least, figures(situation.source)) != least


def starts_otherwise(situation: Situation) -> bool:
    """Report whether a start under way may create a container with other resources than the spec has now."""
    wanted = resources_by_name(situation.source)  # it never names ephemeral containers, which have none
    starts = (one.container for one in situation.busy.values() if isinstance(one, StartContainer))
    return any(
        compute(one.get("resources") or {}) != compute(wanted[one["name"]]) for one in starts if one["name"] in wanted
    )


def in_order(situation: Situation) -> Iterator[tuple[str, PodJson]]:
    """List what live containers are still to be given; those that get less come first, by memory and then by cpu."""
    resize = situation.observed.resize
    if resize is None:
        return
    wanted = resources_by_name(situation.source)

    def rises(name: str) -> tuple[bool, bool]:
        old, new = compute(resize.containers[name]), compute(wanted[name])
        memory = new.memory_limit - old.memory_limit or new.memory_request - old.memory_request
        cpu = new.cpu_limit - old.cpu_limit or new.cpu_request - old.cpu_request
        return memory > 0, cpu > 0

    spec_order = [name for name in wanted if name in resize.containers]
    for name in sorted(spec_order, key=rises):
        yield name, wanted[name]
