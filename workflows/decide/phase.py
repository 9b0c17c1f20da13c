"""A pod's phase, from its containers' statuses (pkg/kubelet/kubelet_pods.go getPhase)."""

from enum import StrEnum

from kubernetes.client.models.v1_container_state_terminated import V1ContainerStateTerminated
from kubernetes.client.models.v1_container_status import V1ContainerStatus

from workflows.decide.containers import init_failed, policy_of
from workflows.decide.restart import RestartPolicy, comes_back
from workflows.decide.sandbox import live_containers
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
    if any(ending(one) is None for one in init):
        return Phase.PENDING
    running = sum(1 for one in regular if one.state and one.state.running)
    ends = [end for one in regular if (end := ending(one)) is not None]
    if running + len(ends) < len(regular):
        return Phase.PENDING
    if running:
        return Phase.RUNNING
    gone = will_start_nothing(situation)
    if not gone and any(comes_back(policy_of(situation), situation.facts(one.name)) for one in situation.containers):
        return Phase.RUNNING
    return phase_of_ends(policy_of(situation), [end.exit_code for end in ends], gone=gone)


def will_start_nothing(situation: Situation) -> bool:
    """Say whether the ends of a pod that goes are its last: nothing lives, and no start is out or in doubt."""
    observed = situation.observed
    if not (observed.deletion or observed.eviction) or observed.starts_in_doubt or situation.is_busy("container/"):
        return False
    return not live_containers(situation)


def phase_of_ends(policy: RestartPolicy, exit_codes: list[int], *, gone: bool) -> Phase:
    """Say the phase of a pod all of whose containers have ended; one that is deleted will not start them again."""
    failed = any(exit_codes)
    if not gone and (policy is RestartPolicy.ALWAYS or (policy is RestartPolicy.ON_FAILURE and failed)):
        return Phase.RUNNING
    return Phase.FAILED if failed else Phase.SUCCEEDED
