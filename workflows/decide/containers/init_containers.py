"""How far a pod's initialization is: one init container after the other, while sidecars keep running.

A sidecar is an init container whose own restartPolicy is Always. The rules are
pkg/kubelet/kuberuntime/kuberuntime_container.go computeInitContainerActions.
"""

from proto.temporal.pod import ContainerState
from workflows.decide.containers.restart import RestartPolicy, init_should_restart
from workflows.decide.containers.restart_all import restart_all_triggers
from workflows.decide.situation import Situation

COME_UP = (ContainerState.CREATED, ContainerState.RUNNING)


def policy_of(situation: Situation) -> RestartPolicy:
    """Return the pod's restartPolicy."""
    return RestartPolicy(situation.spec.restart_policy or "Always")


def is_init(situation: Situation, name: str) -> bool:
    """Report whether it is an init container."""
    return name in situation.init_names


def is_sidecar(situation: Situation, name: str) -> bool:
    """Report whether it is an init container that keeps running."""
    return name in situation.sidecar_names


def ends_by_itself(situation: Situation, name: str) -> bool:
    """Report whether it is an init container that must end before the next one starts."""
    return is_init(situation, name) and not is_sidecar(situation, name)


def init_failed(situation: Situation) -> bool:
    """Report whether an init container has failed for good, so that nothing starts after it; a sidecar never does."""
    if restart_all_triggers(situation) and situation.observed.finished_at is None:
        return False  # what was stopped for a resize is restarted, unless the pod has finished
    failed = [
        (one, ended.exit_code)
        for one in situation.init_containers
        if one.name not in situation.sidecar_names
        and (ended := situation.facts(one.name).exit) is not None
        and ended.exit_code != 0
    ]
    return any(not init_should_restart(one, policy_of(situation), code) for one, code in failed)


def later_came_up(situation: Situation, index: int) -> bool:
    """Report whether a later container has come up in this sandbox: a sidecar that fails afterwards delays nothing.

    A regular container counts only while it lives: once all of them have ended, they wait for the last sidecar again.
    """
    here = situation.sandbox_id
    if not here:
        return False
    for one in situation.init_containers[index + 1 :]:
        facts = situation.facts(one.name)
        if here in (facts.sandbox_id, facts.done_in_sandbox):
            return True
    return any(
        facts.sandbox_id == here and facts.exit is None and facts.state in COME_UP
        for facts in map(situation.facts, (one.name for one in situation.containers))
    )
