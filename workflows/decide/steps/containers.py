"""Which container starts next: init containers one after the other, then the regular ones, after their back-off.

A sidecar starts in its turn, and is restarted whenever it has ended while the pod has anything left to do. What was
done in the current sandbox is read from `Observed`, never inferred from what the runtime still holds: an init container
that succeeded stays done when it is removed, and runs again in a new sandbox
(pkg/kubelet/kuberuntime/kuberuntime_manager.go computePodActions).
"""

from collections.abc import Iterator
from datetime import timedelta

from kubernetes.client.models.v1_container import V1Container

from proto.temporal.activities.requests import RemoveContainer, RemovePodSandbox, RunHook, StartContainer, StopContainer
from workflows.decide.actions import Action, Wake
from workflows.decide.containers.backoff import starts_at
from workflows.decide.containers.init_containers import (
    ends_by_itself,
    is_sidecar,
    later_came_up,
)
from workflows.decide.containers.readiness import is_started
from workflows.decide.containers.restart_all import restart_all, restart_all_triggers
from workflows.decide.containers.standing import (
    END_WITHIN,
    Standing,
    next_attempt,
    pod_is_done,
    standing,
    stops_outdated,
)
from workflows.decide.containers.targets import lacks_target, target_id
from workflows.decide.ending.grace import stop_request
from workflows.decide.hooks import hooks, own_hooks
from workflows.decide.keys import container_key
from workflows.decide.resources.allocation import must_grow
from workflows.decide.situation import Situation, unless_backing_off
from workflows.decide.slices import container_slice
from workflows.decide.volumes.downward import host_ips_shown, start_slice
from workflows.decide.volumes.mounts import are_mounted, mounted_for


def start(situation: Situation, container: V1Container) -> StartContainer:
    """Return the request that starts a container's next instance."""
    sandbox = situation.observed.sandbox
    return StartContainer(
        pod=situation.key,
        sandbox_id=situation.sandbox_id,
        attempt=next_attempt(situation.facts(container.name)),
        image_ref=situation.image(container).image_ref,
        container=container_slice(situation.source, container.name),
        sandbox_spec=start_slice(situation.source, container.name),
        sandbox_attempt=sandbox.attempt if sandbox else 0,
        ips=sandbox.ips if sandbox else (),
        end_within=END_WITHIN if ends_by_itself(situation, container.name) else timedelta(),
        target_id=target_id(situation, container.name),
        volumes=mounted_for(situation, container),
        host_ips=host_ips_shown(situation, container.name),
    )


def next_in_line(situation: Situation) -> list[V1Container]:
    """List whose turn it is: the sidecars so far and the first unfinished init container, or all regular containers."""
    line: list[V1Container] = []
    for index, one in enumerate(situation.init_containers):
        stands = standing(situation, one)
        if stands is not Standing.DONE:
            line.append(one)
        if is_sidecar(situation, one.name):
            started = stands is Standing.UP and is_started(situation, one)
            if not started and not later_came_up(situation, index):
                return line
        elif stands is not Standing.DONE:
            return line
    return [*line, *situation.containers]


def start_containers(situation: Situation) -> Iterator[Action | Wake]:
    """Start what is due, one at a time in the spec's order as the kubelet does; stop first what is in a lost sandbox.

    Nothing starts until the pod's cgroup has grown, because a container that gets more than the pod has does not come
    up.
    """
    if not situation.sandbox_id or not situation.observed.directories or pod_is_done(situation):
        return
    if must_grow(situation) or any(standing(situation, one) is Standing.LOST for one in situation.all_containers):
        return
    yield from own_hooks.after_ends(situation)
    if asked_by := restart_all_triggers(situation):
        yield from restart_all(situation, asked_by)
        return
    looking_in = start_ephemeral(situation)
    yield from looking_in
    starting = bool(situation.starting) or own_hooks.pre_start_is_running(situation)
    starting = starting or any(isinstance(one, StartContainer) for one in looking_in)
    for container in situation.all_containers:
        if standing(situation, container) is Standing.UP and hooks.is_starting(situation, container):
            starting = True  # the hook is part of the start, and containers start one after the other
            yield from hooks.after_start(situation, container)
    yield from stop_outdated(situation)
    for container in next_in_line(situation):
        match standing(situation, container):
            case Standing.UNKNOWN:
                yield from hooks.stop(situation, stop_unknown(situation, container))
            case Standing.WANTED:
                for answer in start_when_due(situation, container, starting=starting):
                    starting = starting or isinstance(answer, StartContainer | RunHook)
                    yield answer


def start_ephemeral(situation: Situation) -> list[Action | Wake]:
    """Start the next ephemeral container before all others and beside their hooks: it may be there to debug a hang."""
    found: list[Action | Wake] = []
    for container in situation.ephemeral_containers:
        starting = bool(situation.starting) or any(isinstance(one, StartContainer) for one in found)
        if standing(situation, container) is Standing.WANTED:
            found += start_when_due(situation, container, starting=starting)
    return found


def start_when_due(situation: Situation, container: V1Container, *, starting: bool) -> Iterator[Action | Wake]:
    """Start one container, or wake when it is due; nothing while it lacks anything or another container is starting."""
    facts = situation.facts(container.name)
    at = starts_at(facts)
    if at and at > situation.now:
        summary = f"CrashLoopBackOff: restart {next_attempt(facts)} of {container.name} at {at:%H:%M:%S}"
        yield Wake(at, summary, container_key(container.name))
    elif starting or situation.images_missing(container) or not are_mounted(situation):
        return
    elif not lacks_target(situation, container.name):
        yield from own_hooks.before_start(situation, start(situation, container))


def stop_unknown(situation: Situation, container: V1Container) -> StopContainer:
    """Stop a container whose state the runtime has lost, so that it can start again.

    It may be running, so it has the pod's grace period (kuberuntime_container.go setTerminationGracePeriod).
    """
    return stop_request(situation, container.name, "the runtime does not know its state")


def stop_outdated(situation: Situation) -> Iterator[Action | Wake]:
    """Stop what runs with an outdated definition, so that it restarts with the current one."""
    for container in situation.all_containers:
        if not stops_outdated(situation, container):
            continue
        sidecar = is_sidecar(situation, container.name)
        subject, again = ("Init container", "") if sidecar else ("Container", ", will be restarted")
        reason = f"{subject} {container.name} definition changed{again}"
        yield from hooks.stop(situation, stop_request(situation, container.name, reason))


def tidy(situation: Situation) -> Iterator[Action | Wake]:
    """Remove dead containers and lost sandboxes while nothing can start.

    The newest dead instance of each container stays, for its logs (pkg/kubelet/kubelet.go maxPerPodContainerCount).
    """
    observed = situation.observed
    leftover = [(name, dead) for name, dead in observed.dead_containers.items() if len(dead) > 1]
    if not situation.sandbox_id or not (observed.old_sandboxes or leftover):
        return
    if situation.starting or any(isinstance(one, StartContainer) for one in start_containers(situation)):
        return
    for sandbox_id in observed.old_sandboxes:
        yield from unless_backing_off(situation, RemovePodSandbox(situation.key, sandbox_id))
    for name, dead in leftover:
        for container_id in dead[:-1]:
            yield from unless_backing_off(situation, RemoveContainer(situation.key, name, container_id))
