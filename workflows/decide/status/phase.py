"""A pod's phase, from its containers' statuses (pkg/kubelet/kubelet_pods.go getPhase)."""

from dataclasses import replace
from datetime import datetime
from enum import StrEnum

from kubernetes.client.models.v1_container import V1Container
from kubernetes.client.models.v1_container_state_terminated import V1ContainerStateTerminated
from kubernetes.client.models.v1_container_status import V1ContainerStatus

from proto.temporal.pod import ContainerState
from proto.temporal.pod_inputs import Eviction
from workflows.decide.containers.init_containers import init_failed, is_sidecar, policy_of
from workflows.decide.containers.restart import regular_should_restart
from workflows.decide.containers.restart_all import restart_all_triggers
from workflows.decide.containers.termination_order import live_containers
from workflows.decide.situation import Situation
from workflows.decide.status.container_status import CONTAINER_CREATING, POD_INITIALIZING, waiting
from workflows.decide.versions import EVICTED_MAY_SUCCEED


class Phase(StrEnum):
    """status.phase."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


TERMINAL = (Phase.SUCCEEDED, Phase.FAILED)


def ending(status: V1ContainerStatus) -> V1ContainerStateTerminated | None:
    """Return the end that counts: the current one, or the last one while the container waits for a restart."""
    if status.state and status.state.terminated:
        return status.state.terminated
    waits = status.state and status.state.waiting
    return status.last_state.terminated if waits and status.last_state else None


def pod_phase(situation: Situation, init: list[V1ContainerStatus], regular: list[V1ContainerStatus]) -> Phase:
    """Return the phase. A deleted pod keeps the phase that its containers give it; an evicted one has failed, unless it may succeed.

    Its phase is final once nothing of it runs any more, and not before, whatever its containers end with meanwhile
    (pkg/kubelet/status/status_manager.go mergePodStatus).
    """
    if ended := situation.observed.ended:
        return Phase(ended.phase)  # already published, and a final phase never changes
    phase = phase_of_containers(situation, init, regular)
    if (eviction := situation.observed.eviction) is None:
        return phase
    if ends_are_final(situation):
        return Phase.SUCCEEDED if phase is Phase.SUCCEEDED and has_succeeded(situation, eviction) else Phase.FAILED
    if phase in TERMINAL:
        return Phase.PENDING if init_failed(situation) else Phase.RUNNING
    return phase


def may_succeed(situation: Situation) -> bool:
    """Report whether an eviction leaves a success a success: of a pod of the API (pkg/kubelet/kubelet_pods.go getPhase, podIsTerminal).

    The kubelet marks the pod as failed first, but judges the containers anew once they have ended; what differs then has lost its reason
    (generateAPIPodStatus). A pod that was active too long fails all the same (ShouldEvict), and so does one that was never admitted.
    """
    return situation.from_api and situation.behaviour >= EVICTED_MAY_SUCCEED


def has_succeeded(situation: Situation, eviction: Eviction) -> bool:
    """Report whether an evicted pod whose containers have all exited with 0 counts as a success.

    A container that waited for its next start when the eviction came has stopped, but not succeeded: the kubelet shows it as waiting
    (kubelet_pods.go convertToAPIContainerStatuses). A deletion that comes later changes nothing, for a final phase never changes.
    """
    return eviction.may_succeed and not any(waited(situation, one, eviction.at) for one in situation.containers)


def waited(situation: Situation, container: V1Container, at: datetime) -> bool:
    """Report whether a container that had ended waited then, by a reason that its status showed."""
    facts, then = situation.facts(container.name), replace(situation, now=at)
    if facts.exit is None or facts.exit.finished_at is None or facts.exit.finished_at > at:
        return False
    if not regular_should_restart(container, policy_of(situation), facts):
        return False
    return waiting(then, container, facts).reason not in (CONTAINER_CREATING, POD_INITIALIZING)


def phase_of_containers(situation: Situation, init: list[V1ContainerStatus], regular: list[V1ContainerStatus]) -> Phase:
    """Return the phase that the containers alone give."""
    if init_failed(situation):
        return Phase.FAILED
    sidecars = [one for one in init if is_sidecar(situation, one.name)]
    ending_ones = [one for one in init if not is_sidecar(situation, one.name)]
    if any(ending(one) is None for one in ending_ones) or sidecars_pending(situation, sidecars):
        return Phase.PENDING
    running = sum(1 for one in regular if is_running(one))
    ends = [end for one in regular if (end := ending(one)) is not None]
    if running + len(ends) < len(regular):
        return Phase.PENDING
    if running or any(is_running(one) for one in sidecars) or has_lost_container(situation):
        return Phase.RUNNING
    if companions_may_be_up(situation):
        return Phase.RUNNING
    return phase_of_ends(situation, [end.exit_code for end in ends])


def is_running(status: V1ContainerStatus) -> bool:
    """Report whether it runs now."""
    return bool(status.state and status.state.running)


def sidecars_pending(situation: Situation, sidecars: list[V1ContainerStatus]) -> bool:
    """Report whether a sidecar never came up, or has not started and no regular container has run."""
    if any(not is_running(one) and ending(one) is None for one in sidecars):
        return True
    if all(one.started for one in sidecars if is_running(one)):
        return False
    here = situation.sandbox_id
    return not here or all(situation.facts(one.name).sandbox_id != here for one in situation.containers)


def companions_may_be_up(situation: Situation) -> bool:
    """Report whether a sidecar or an ephemeral container is up or may be: then no phase is final yet.

    (pkg/kubelet/status/status_manager.go mergePodStatus; here a failed initialization is final at once.)
    """
    if not situation.companions:
        return False
    if situation.observed.starts_in_doubt or situation.is_busy("container/"):
        return True
    return not situation.companions.isdisjoint(live_containers(situation))


def has_lost_container(situation: Situation) -> bool:
    """Report whether the runtime has lost the state of a regular container: then no phase is final yet."""
    return any(
        facts.state is ContainerState.UNKNOWN and facts.exit is None
        for facts in (situation.facts(one.name) for one in situation.containers)
    )


def ends_are_final(situation: Situation) -> bool:
    """Report whether the ends of a terminating pod are final: nothing lives, and no start is under way or in doubt.

    Not asked of a pod that had finished before: a deletion does not change how its ends were judged.
    """
    observed = situation.observed
    if observed.finished_at:
        return False
    if not (observed.deletion or observed.eviction) or observed.starts_in_doubt or situation.is_busy("container/"):
        return False
    return not live_containers(situation)


def was_removed(situation: Situation, name: str) -> bool:
    """Report whether its last instance was removed for a restart of all containers."""
    facts = situation.facts(name)
    return facts.last_exit is not None and not facts.container_id


def phase_of_ends(situation: Situation, exit_codes: list[int]) -> Phase:
    """Return the phase of a pod whose containers have all ended; a deleted one does not restart them.

    A container that was removed for a restart and never came up has not succeeded, whatever its last instance ended
    with. One whose postStart hook is under way is still starting, so its last end does not count.
    """
    policy = policy_of(situation)
    ends = zip(situation.containers, exit_codes, strict=True)
    removed = any(was_removed(situation, one.name) for one in situation.containers)
    lives = not {one.name for one in situation.containers}.isdisjoint(live_containers(situation))
    again = (
        removed
        or lives
        or any(regular_should_restart(one, policy, situation.facts(one.name), code) for one, code in ends)
    )
    if (again or restart_all_triggers(situation)) and not ends_are_final(situation):
        return Phase.RUNNING
    return Phase.FAILED if removed or any(exit_codes) else Phase.SUCCEEDED
