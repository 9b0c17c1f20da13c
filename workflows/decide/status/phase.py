"""A pod's phase, from its containers' statuses (pkg/kubelet/kubelet_pods.go getPhase)."""

from enum import StrEnum

from kubernetes.client.models.v1_container_state_terminated import V1ContainerStateTerminated
from kubernetes.client.models.v1_container_status import V1ContainerStatus

from proto.temporal.pod import ContainerState
from workflows.decide.containers.init_containers import init_failed, is_sidecar, policy_of
from workflows.decide.containers.restart import regular_should_restart
from workflows.decide.containers.restart_all import restart_all_triggers
from workflows.decide.containers.termination_order import live_containers
from workflows.decide.situation import Situation


class Phase(StrEnum):
    """status.phase."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


TERMINAL = (Phase.SUCCEEDED, Phase.FAILED)


def ending(status: V1ContainerStatus) -> V1ContainerStateTerminated | None:
    """The end that counts: the present one, or the last one while the container waits to start again."""
    if status.state and status.state.terminated:
        return status.state.terminated
    waits = status.state and status.state.waiting
    return status.last_state.terminated if waits and status.last_state else None


def pod_phase(situation: Situation, init: list[V1ContainerStatus], regular: list[V1ContainerStatus]) -> Phase:
    """Say the phase; a pod that is deleted keeps the phase that its containers give it, one that is evicted has failed.

    It fails when nothing of it runs any more, and whatever its containers end with meanwhile is not the last word
    (pkg/kubelet/status/status_manager.go mergePodStatus).
    """
    if ended := situation.observed.ended:
        return Phase(ended.phase)  # shown to others already, and no final phase turns back
    phase = phase_of_containers(situation, init, regular)
    if situation.observed.eviction is None:
        return phase
    if will_start_nothing(situation):
        return Phase.FAILED
    if phase in TERMINAL:
        return Phase.PENDING if init_failed(situation) else Phase.RUNNING
    return phase


def phase_of_containers(situation: Situation, init: list[V1ContainerStatus], regular: list[V1ContainerStatus]) -> Phase:
    """Say the phase that the containers alone give."""
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
    if running or any(is_running(one) for one in sidecars) or out_of_sight(situation):
        return Phase.RUNNING
    if companions_may_be_up(situation):
        return Phase.RUNNING
    return phase_of_ends(situation, [end.exit_code for end in ends])


def is_running(status: V1ContainerStatus) -> bool:
    """Say whether it runs now."""
    return bool(status.state and status.state.running)


def sidecars_pending(situation: Situation, sidecars: list[V1ContainerStatus]) -> bool:
    """Say whether one of them has never come up, or is not started yet in a pod of which nothing regular has run."""
    if any(not is_running(one) and ending(one) is None for one in sidecars):
        return True
    if all(one.started for one in sidecars if is_running(one)):
        return False
    here = situation.sandbox_id
    return not here or all(situation.facts(one.name).sandbox_id != here for one in situation.containers)


def companions_may_be_up(situation: Situation) -> bool:
    """Say whether a sidecar or an ephemeral container is up, or may be and we were not told: then no phase is final yet.

    (pkg/kubelet/status/status_manager.go mergePodStatus; a failed initialization is final at once here.)
    """
    if not situation.companions:
        return False
    if situation.observed.starts_in_doubt or situation.is_busy("container/"):
        return True
    return not situation.companions.isdisjoint(live_containers(situation))


def out_of_sight(situation: Situation) -> bool:
    """Say whether the runtime does not know of a regular container whether it runs: then no phase is final yet."""
    return any(
        facts.state is ContainerState.UNKNOWN and facts.exit is None
        for facts in (situation.facts(one.name) for one in situation.containers)
    )


def will_start_nothing(situation: Situation) -> bool:
    """Say whether the ends of a pod that goes are its last: nothing lives, and no start is out or in doubt.

    Not asked of one that had finished before: its ends were judged then, and a deletion judges nothing anew.
    """
    observed = situation.observed
    if observed.finished_at:
        return False
    if not (observed.deletion or observed.eviction) or observed.starts_in_doubt or situation.is_busy("container/"):
        return False
    return not live_containers(situation)


def was_removed(situation: Situation, name: str) -> bool:
    """Say whether its last instance was removed so that all start again."""
    facts = situation.facts(name)
    return facts.last_exit is not None and not facts.container_id


def phase_of_ends(situation: Situation, exit_codes: list[int]) -> Phase:
    """Say the phase of a pod all of whose containers have ended; one that is deleted will not start them again.

    One that was removed to start again and never did has not succeeded, whatever its last instance ended with; one that is
    starting again, its postStart hook under way, has not had its last end.
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
    if (again or restart_all_triggers(situation)) and not will_start_nothing(situation):
        return Phase.RUNNING
    return Phase.FAILED if removed or any(exit_codes) else Phase.SUCCEEDED
