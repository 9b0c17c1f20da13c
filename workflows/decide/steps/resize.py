"""Carries out a granted resize: raise the pod's cgroup, update each live container, lower the cgroup.

So the pod's cgroup is never below what its containers have, which cgroup v1 rejects. A container whose resizePolicy
says RestartContainer is stopped and restarted with the new spec, whatever its restartPolicy, and so is one that is not
running (pkg/kubelet/kuberuntime/kuberuntime_manager.go computePodResizeAction, doPodResizeAction). Cpu and memory of a
container are set by one call; the kubelet makes two. `resources/allocation.py` decides what is granted.
"""

from collections.abc import Iterator
from typing import Final

from kubernetes.client.models.v1_container import V1Container

from proto.temporal.activities.resize import UpdateContainerResources, UpdatePodSandboxResources
from proto.temporal.pod import ContainerState, PodJson
from proto.temporal.resources import RuntimeResources
from workflows.decide.actions import Action, Wake
from workflows.decide.containers.restart import NEEDS_RESTART
from workflows.decide.ending.grace import stop_request
from workflows.decide.hooks import hooks
from workflows.decide.keys import container_key
from workflows.decide.resources.allocation import (
    cgroup_given,
    container_given,
    current_resources,
    has_cgroup,
    in_order,
    must_grow,
    starts_otherwise,
)
from workflows.decide.resources.resources import compute
from workflows.decide.situation import Situation, is_live, unless_backing_off
from workflows.decide.slices import resources_slice, sandbox_slice
from workflows.decide.versions import LOOKS_FOR_STARTS, RESIZES_WHAT_RUNS

RESTART_CONTAINER: Final = "RestartContainer"


def resize_pod(situation: Situation) -> Iterator[Action | Wake]:
    """Carry out a resize one step after the other; a step that failed delays the later ones until it is retried."""
    resize = situation.observed.resize
    if resize is None or not situation.sandbox_id:
        return
    if must_grow(situation):
        yield from unless_backing_off(situation, update_cgroup(situation, growing=True))
        return
    left, restarts = list(in_order(situation)), restarting(situation)
    for name in sorted(restarts):
        may_run = is_live(situation.facts(name)) or situation.behaviour < LOOKS_FOR_STARTS
        if may_run and container_key(name) not in situation.busy:
            yield from hooks.stop(situation, stop_request(situation, name, f"Container {name} {NEEDS_RESTART}"))
    for name, _ in left:
        facts = situation.facts(name)
        here = facts.sandbox_id == situation.sandbox_id and facts.state is ContainerState.RUNNING
        if name in restarts or not here or container_key(name) in situation.busy:
            continue
        yield from unless_backing_off(situation, update_container(situation, name))
        return
    if left or (situation.behaviour >= RESIZES_WHAT_RUNS and starts_otherwise(situation)):
        return
    if not has_cgroup(resize, situation.source):
        yield from unless_backing_off(situation, update_cgroup(situation, growing=False))


def restarting(situation: Situation) -> set[str]:
    """Name the containers that a resize restarts."""
    by_name = {one.name: one for one in situation.all_containers}
    return {
        name
        for name, wanted in in_order(situation)
        if restarts_for(by_name[name], current_resources(situation, name), wanted)
    }


def restarts_for(container: V1Container, old: PodJson, new: PodJson) -> bool:
    """Report whether a container's resizePolicy restarts it for this change of its resources."""
    before, after = compute(old), compute(new)
    changed = {
        "cpu": (before.cpu_request, before.cpu_limit) != (after.cpu_request, after.cpu_limit),
        "memory": (before.memory_request, before.memory_limit) != (after.memory_request, after.memory_limit),
    }
    policies = {one.resource_name: one.restart_policy for one in reversed(container.resize_policy or [])}
    return any(changed[name] and policies.get(name) == RESTART_CONTAINER for name in changed)


def update_cgroup(situation: Situation, *, growing: bool) -> UpdatePodSandboxResources:
    """Return the request that sets the pod's cgroup."""
    spec = sandbox_slice(situation.source)
    return UpdatePodSandboxResources(situation.key, situation.sandbox_id, spec, growing)


def update_container(situation: Situation, name: str) -> UpdateContainerResources:
    """Return the request that gives a container what its spec says now."""
    return UpdateContainerResources(
        pod=situation.key,
        name=name,
        container_id=situation.facts(name).container_id,
        container=resources_slice(situation.source, name),
        sandbox_spec=sandbox_slice(situation.source),
    )


def container_updated(situation: Situation, action: UpdateContainerResources, seen: RuntimeResources) -> None:
    """Record what a container has now; if the runtime no longer holds it, re-read the runtime."""
    facts = situation.observed.containers.get(action.name)
    if seen.gone:
        situation.observed.runtime_stale = True
    elif facts is not None and facts.container_id == action.container_id:
        facts.resources = seen
        container_given(situation, action.name, action.container["resources"])


def cgroup_updated(situation: Situation, action: UpdatePodSandboxResources) -> None:
    """Record what the pod's cgroup has now."""
    cgroup_given(situation, action.sandbox_spec, growing=action.growing)
