"""The status of each container (pkg/kubelet/kubelet_pods.go convertToAPIContainerStatuses).

A container that will be restarted is waiting, with the kubelet's reason; its last end is its lastState.
"""

from typing import Final

from kubernetes.client.models.v1_container import V1Container
from kubernetes.client.models.v1_container_state import V1ContainerState
from kubernetes.client.models.v1_container_state_running import V1ContainerStateRunning
from kubernetes.client.models.v1_container_state_terminated import V1ContainerStateTerminated
from kubernetes.client.models.v1_container_state_waiting import V1ContainerStateWaiting
from kubernetes.client.models.v1_container_status import V1ContainerStatus
from kubernetes.client.models.v1_container_user import V1ContainerUser
from kubernetes.client.models.v1_linux_container_user import V1LinuxContainerUser

from proto.temporal.pod import ContainerFacts, ContainerState, Exit, Lifecycle
from workflows.decide.containers.backoff import NOT_PULLED, starts_at
from workflows.decide.containers.init_containers import init_failed, is_init, is_sidecar
from workflows.decide.containers.instances import UNKNOWN_EXIT, UNKNOWN_MESSAGE, UNKNOWN_REASON
from workflows.decide.containers.readiness import is_ready, is_started
from workflows.decide.containers.restart_all import RESTARTING, restart_all_triggers
from workflows.decide.containers.standing import Standing, standing
from workflows.decide.containers.targets import lacks_target
from workflows.decide.hooks.hooks import is_starting
from workflows.decide.situation import Situation
from workflows.decide.status.messages import shown
from workflows.decide.status.shown_resources import shown_resources
from workflows.decide.volumes.mounts import mount_statuses

CONTAINER_CREATING: Final = "ContainerCreating"
POD_INITIALIZING: Final = "PodInitializing"
CRASH_LOOP_BACK_OFF: Final = "CrashLoopBackOff"
RUNTIME_SCHEME: Final = "containerd://"
REMOVED: Final = "it was removed from the runtime: all containers of the pod start again"
DONE_UNSEEN: Final = "its record is gone from the runtime, but containers that come after it have run: it had succeeded"


def container_status(situation: Situation, container: V1Container) -> V1ContainerStatus:
    """Build one container's status."""
    facts = situation.facts(container.name)
    state, last = states(situation, container, facts)
    ends = is_init(situation, container.name) and not is_sidecar(situation, container.name)
    done = state.terminated is not None and state.terminated.exit_code == 0
    between = is_between_definitions(situation, container)
    return V1ContainerStatus(
        name=container.name,
        image=facts.image or container.image,
        image_id=facts.image_ref,
        container_id=container_uri(facts.container_id),
        restart_count=facts.attempt,
        ready=done if ends else is_ready(situation, container, as_it_ran=between),
        started=is_started(situation, container, as_it_ran=between),
        state=state,
        last_state=last,
        stop_signal=stop_signal(situation, facts),
        allocated_resources=container.resources.requests if facts.container_id and container.resources else None,
        resources=shown_resources(situation, container, facts),
        volume_mounts=mount_statuses(situation, container),
        user=shown_user(facts),
    )


def shown_user(facts: ContainerFacts) -> V1ContainerUser | None:
    """Return the user that it runs as, if the runtime reports it."""
    if facts.user is None:
        return None
    user = facts.user
    groups = list(user.groups) or None
    return V1ContainerUser(linux=V1LinuxContainerUser(uid=user.uid, gid=user.gid, supplemental_groups=groups))


def stop_signal(situation: Situation, facts: ContainerFacts) -> str | None:
    """Return the runtime's stop signal, if the gate ContainerStopSignals is on and the runtime reports it."""
    return facts.stop_signal or None if situation.settings.container_stop_signals else None


def ephemeral_status(situation: Situation, container: V1Container) -> V1ContainerStatus:
    """Build the status of an ephemeral container, which has no started and is never ready."""
    status = container_status(situation, container)
    status.ready, status.started = False, None
    return status


def container_uri(container_id: str) -> str | None:
    """Write an id as status.containerID does."""
    return f"{RUNTIME_SCHEME}{container_id}" if container_id else None


def states(
    situation: Situation, container: V1Container, facts: ContainerFacts
) -> tuple[V1ContainerState, V1ContainerState]:
    """Return the current state and the last one."""
    before = (
        V1ContainerState(terminated=terminated(situation, facts.last_exit)) if facts.last_exit else V1ContainerState()
    )
    if facts.exit is None:
        return not_ended(situation, container, facts), before
    if is_between_definitions(situation, container):
        return V1ContainerState(running=V1ContainerStateRunning(started_at=facts.started_at)), before
    ended = V1ContainerState(terminated=terminated(situation, facts.exit))
    comes_back = standing(situation, container) is Standing.WANTED and not init_failed(situation)
    if comes_back and situation.observed.lifecycle is Lifecycle.SYNC:
        reason = waiting(situation, container, facts)
        if reason.reason not in (CONTAINER_CREATING, POD_INITIALIZING):
            return V1ContainerState(waiting=reason), ended
    return ended, before


def is_between_definitions(situation: Situation, container: V1Container) -> bool:
    """Report whether a container of an API's pod was stopped for another image and has not come up with it yet.

    Until then, or until something prevents the next start, it is shown as it ran: the kubelet publishes nothing between
    the two halves of one sync (pkg/kubelet/kubelet.go SyncPod writes the status before it acts).
    """
    facts = situation.facts(container.name)
    if not situation.from_api or situation.observed.lifecycle is not Lifecycle.SYNC:
        return False
    if not facts.outdated or facts.exit is None:
        return False
    return waiting(situation, container, facts).reason in (CONTAINER_CREATING, POD_INITIALIZING)


def not_ended(situation: Situation, container: V1Container, facts: ContainerFacts) -> V1ContainerState:
    """Return the state of a container whose newest instance has not ended, or that never had one."""
    if facts.state is ContainerState.RUNNING and not is_starting(situation, container):
        return V1ContainerState(running=V1ContainerStateRunning(started_at=facts.started_at))
    if facts.done_in_sandbox and not facts.container_id:
        return V1ContainerState(
            terminated=V1ContainerStateTerminated(reason="Completed", message=DONE_UNSEEN, exit_code=0)
        )
    out_of_sight = facts.state is ContainerState.UNKNOWN and facts.started_at is not None
    if out_of_sight or (situation.observed.lifecycle is Lifecycle.TERMINATED and must_have_run(situation, container)):
        return V1ContainerState(
            terminated=V1ContainerStateTerminated(
                reason=UNKNOWN_REASON, message=UNKNOWN_MESSAGE, exit_code=UNKNOWN_EXIT
            )
        )
    return V1ContainerState(waiting=waiting(situation, container, facts))


def must_have_run(situation: Situation, container: V1Container) -> bool:
    """Report whether a container of a pod that is gone must have run (pkg/kubelet/status/status_manager.go TerminatePod).

    If initialization broke off, these are the init containers up to the last one that was seen, and always the first.
    Never an ephemeral container.
    """
    if container.name in situation.ephemeral_names:
        return False
    if has_initialized(situation) or not is_init(situation, container.name):
        return has_initialized(situation)
    names = [one.name for one in situation.init_containers]
    seen = [index for index, name in enumerate(names) if was_created(situation.facts(name))]
    return names.index(container.name) <= max(seen, default=0)


def was_created(facts: ContainerFacts) -> bool:
    """Report whether any instance of a container was ever created."""
    return bool(facts.container_id or facts.last_exit)


def has_initialized(situation: Situation) -> bool:
    """Report whether the pod's initialization was ever complete (pkg/kubelet/status/status_manager.go hasPodInitialized).

    If the last init container is a sidecar, that is known only while it runs, and it no longer runs when this is asked.
    """
    if not situation.init_containers or any(was_created(situation.facts(one.name)) for one in situation.containers):
        return True
    return bool(situation.facts(situation.init_containers[-1].name).done_in_sandbox)


def waiting(situation: Situation, container: V1Container, facts: ContainerFacts) -> V1ContainerStateWaiting:
    """Return why a container waits."""
    at = starts_at(facts)
    if at and at > situation.now:
        return V1ContainerStateWaiting(reason=CRASH_LOOP_BACK_OFF, message=back_off_words(situation, container, facts))
    lacking = situation.images_missing(container)
    for asked in lacking:
        if (image := situation.image_of(asked)).reason:
            again = image.reason not in NOT_PULLED and image.backoff != situation.settings.image_backoff_initial
            return image_waiting(asked[0], image.reason, image.message, again=again)
    if not lacking and situation.sandbox_id and (lack := lacks_target(situation, container.name)):
        return V1ContainerStateWaiting(reason=lack.reason, message=lack.message)
    if facts.failure_reason:
        return V1ContainerStateWaiting(reason=facts.failure_reason, message=facts.failure_message or None)
    if facts.last_exit and not facts.container_id and restart_all_triggers(situation):
        return V1ContainerStateWaiting(reason=RESTARTING, message=REMOVED)
    return V1ContainerStateWaiting(reason=POD_INITIALIZING if situation.init_containers else CONTAINER_CREATING)


def image_waiting(image: str, reason: str, message: str, *, again: bool) -> V1ContainerStateWaiting:
    """Return why an image is missing: the first failure by its own reason, further ones as a back-off."""
    if not again:
        return V1ContainerStateWaiting(reason=reason, message=message)
    return V1ContainerStateWaiting(
        reason="ImagePullBackOff", message=f'Back-off pulling image "{image}": {reason}: {message}'
    )


def back_off_words(situation: Situation, container: V1Container, facts: ContainerFacts) -> str:
    """Write the kubelet's message about a crash loop (kuberuntime_manager.go doBackOff)."""
    seconds = int(facts.backoff.total_seconds()) if facts.backoff else 0
    minutes, rest = divmod(seconds, 60)
    delay = f"{minutes}m{rest}s" if minutes else f"{rest}s"
    pod = situation.key
    return f"back-off {delay} restarting failed container={container.name} pod={pod.name}_{pod.namespace}({pod.uid})"


def terminated(situation: Situation, end: Exit) -> V1ContainerStateTerminated:
    """Write an end as a terminated state."""
    return V1ContainerStateTerminated(
        exit_code=end.exit_code,
        reason=end.reason,
        message=shown(situation, end.message) or None,
        started_at=end.started_at,
        finished_at=end.finished_at,
        container_id=container_uri(end.container_id),
    )
