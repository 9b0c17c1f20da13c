"""Whether a container that has ended starts again (pkg/kubelet/container/helpers.go ShouldContainerBeRestarted).

Three may say so, the nearest first: the container's own rules about exit codes, its own restartPolicy, the pod's. A
restartable init container (a sidecar) is asked elsewhere: it starts again for as long as the pod has anything to do.
"""

from enum import StrEnum
from typing import Final, assert_never

from kubernetes.client.models.v1_container import V1Container
from kubernetes.client.models.v1_container_restart_rule import V1ContainerRestartRule
from kubernetes.client.models.v1_container_restart_rule_on_exit_codes import V1ContainerRestartRuleOnExitCodes

from proto.temporal.pod import ContainerFacts, ProbeKind

NEEDS_RESTART: Final = "resize requires restart"
"""How the reason ends for which a resize stops a container (kuberuntime_manager.go computePodResizeAction)."""


class RestartPolicy(StrEnum):
    """spec.restartPolicy and that of a container."""

    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"


class RuleAction(StrEnum):
    """What a rule does."""

    RESTART = "Restart"
    RESTART_ALL = "RestartAllContainers"


class ExitCodes(StrEnum):
    """How a rule's list of exit codes is meant."""

    IN = "In"
    NOT_IN = "NotIn"


def policy_for(container: V1Container, pods: RestartPolicy) -> RestartPolicy:
    """Say which policy holds for a container: its own, else the pod's."""
    return RestartPolicy(container.restart_policy) if container.restart_policy else pods


def policy_restarts(container: V1Container, pods: RestartPolicy, exit_code: int) -> bool:
    """Say whether a container that ended with this code is started again (pkg/api/v1/pod ContainerShouldRestart)."""
    if container.restart_policy and matching_rule(container, exit_code):
        return True  # both actions start it; `restart_all` has the others to say
    policy = policy_for(container, pods)
    match policy:
        case RestartPolicy.ALWAYS:
            return True
        case RestartPolicy.ON_FAILURE:
            return exit_code != 0
        case RestartPolicy.NEVER:
            return False
        case _:
            assert_never(policy)


def failed_probe(facts: ContainerFacts) -> ProbeKind | None:
    """Name the probe for which the newest instance is stopped, if any: liveness counts first."""
    for kind in (ProbeKind.LIVENESS, ProbeKind.STARTUP):
        found = facts.probes.get(kind)
        if found is not None and not found.success:
            return kind
    return None


def regular_should_restart(
    container: V1Container, pods: RestartPolicy, facts: ContainerFacts, exit_code: int | None = None
) -> bool:
    """Say whether a regular container that has ended starts again: after a failed probe whatever its exit code.

    One that was stopped for a resize or another image always does. The exit code is that of the newest instance unless another
    one is given. Rules are not asked about a failed probe.
    """
    if facts.outdated or (facts.exit is not None and facts.stop_reason.endswith(NEEDS_RESTART)):
        return True
    if failed_probe(facts) is not None and policy_for(container, pods) is not RestartPolicy.NEVER:
        return True
    code = exit_code if exit_code is not None else facts.exit.exit_code if facts.exit else None
    return code is not None and policy_restarts(container, pods, code)


def init_should_restart(container: V1Container, pods: RestartPolicy, exit_code: int) -> bool:
    """Say whether an init container that ended with this code is tried again; if not, a failure fails the pod."""
    return exit_code != 0 and policy_restarts(container, pods, exit_code)


def matching_rule(container: V1Container, exit_code: int) -> V1ContainerRestartRule | None:
    """Find the first rule that speaks of this exit code; the others are not asked then."""
    for rule in container.restart_policy_rules or ():
        if rule.exit_codes and matches(rule.exit_codes, exit_code):
            return rule
    return None


def matches(codes: V1ContainerRestartRuleOnExitCodes, exit_code: int) -> bool:
    """Say whether a rule's codes take this one in."""
    listed = exit_code in (codes.values or ())
    match codes.operator:
        case ExitCodes.IN:
            return listed
        case ExitCodes.NOT_IN:
            return not listed
        case _:
            return False
