"""Which container an ephemeral one is to look into, and what is wrong while that cannot be (targetContainerName).

Asked by `containers` before a start, and by whoever tells why it waits. The runtime lets a container share the processes of
one that runs and of no other, so nothing is asked of it before the target runs; the words are those with which the kubelet's
tries fail (pkg/kubelet/kuberuntime/kuberuntime_container.go startSpec.getTargetID, then the runtime itself).
"""

from dataclasses import dataclass

from proto.temporal.failure_types import CONFIG_ERROR
from proto.temporal.pod import ContainerState
from workflows.decide.situation import Situation


@dataclass(frozen=True, slots=True)
class NoTarget:
    """Why a container cannot look into its target now: the reason and message of its status."""

    reason: str
    message: str


def target_of(situation: Situation, name: str) -> str:
    """Name the container whose processes an ephemeral container is to see; empty where it is to see only its own."""
    if name not in situation.ephemeral_names:
        return ""
    own = (one for one in situation.spec.ephemeral_containers or () if one.name == name)
    return next(own).target_container_name or ""


def target_id(situation: Situation, name: str) -> str:
    """Say the id of the instance that it is to look into; empty where there is none."""
    target = target_of(situation, name)
    return situation.facts(target).container_id if target else ""


def lacks_target(situation: Situation, name: str) -> NoTarget | None:
    """Say what is wrong with the target of a container that has one; None when nothing is."""
    target = target_of(situation, name)
    return no_target(situation, target) if target else None


def no_target(situation: Situation, target: str) -> NoTarget | None:
    """Say why nobody can look into this container now."""
    facts = situation.facts(target)
    if not facts.container_id:
        return NoTarget(CONFIG_ERROR, f"unable to find target container {target}")
    if situation.spec.host_pid or situation.spec.share_process_namespace:
        return None  # nothing is asked of the runtime: in such a pod all processes are seen anyway
    if facts.state is not ContainerState.RUNNING or facts.sandbox_id != situation.sandbox_id:
        return NoTarget("CreateContainerError", f"target container {target} is not running")
    return None
