"""The target of an ephemeral container (targetContainerName), and why it is not available.

The runtime shares the processes of running containers only, so no start is tried before the target runs. The reasons
and messages are those with which the kubelet's start fails (pkg/kubelet/kuberuntime/kuberuntime_container.go
startSpec.getTargetID, then the runtime itself).
"""

from dataclasses import dataclass

from proto.temporal.failure_types import CONFIG_ERROR
from proto.temporal.pod import ContainerState
from workflows.decide.situation import Situation


@dataclass(frozen=True, slots=True)
class NoTarget:
    """Why a target is not available: the reason and message for the status."""

    reason: str
    message: str


def target_of(situation: Situation, name: str) -> str:
    """Name the container whose processes an ephemeral container shares; empty for none."""
    if name not in situation.ephemeral_names:
        return ""
    own = (one for one in situation.spec.ephemeral_containers or () if one.name == name)
    return next(own).target_container_name or ""


def target_id(situation: Situation, name: str) -> str:
    """Return the id of the target's instance; empty for none."""
    target = target_of(situation, name)
    return situation.facts(target).container_id if target else ""


def lacks_target(situation: Situation, name: str) -> NoTarget | None:
    """Explain why a container's target is not available; None if it is, or if it has no target."""
    target = target_of(situation, name)
    return no_target(situation, target) if target else None


def no_target(situation: Situation, target: str) -> NoTarget | None:
    """Explain why this container cannot be a target now."""
    facts = situation.facts(target)
    if not facts.container_id:
        return NoTarget(CONFIG_ERROR, f"unable to find target container {target}")
    if situation.spec.host_pid or situation.spec.share_process_namespace:
        return None  # the runtime needs no target: in such a pod all processes are visible anyway
    if facts.state is not ContainerState.RUNNING or facts.sandbox_id != situation.sandbox_id:
        return NoTarget("CreateContainerError", f"target container {target} is not running")
    return None
