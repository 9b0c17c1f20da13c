"""Whether a container that has ended is restarted (pkg/kubelet/container/helpers.go ShouldContainerBeRestarted).

In order of precedence: the container's own rules about exit codes, its own restartPolicy, the pod's. A sidecar is not
judged here: it is restarted for as long as the pod has anything left to do.
"""

from enum import StrEnum
from typing import Final, assert_never

from kubernetes.client.models.v1_container import V1Container
from kubernetes.client.models.v1_container_restart_rule import V1ContainerRestartRule
from kubernetes.client.models.v1_container_restart_rule_on_exit_codes import V1ContainerRestartRuleOnExitCodes

from proto.temporal.pod import ContainerFacts, ProbeKind

NEEDS_RESTART: Final = "resize requires restart"
"""The end of the stop reason when a resize restarts a container (kuberuntime_manager.go computePodResizeAction)."""


class RestartPolicy(StrEnum):
    """The restartPolicy of a pod or a container."""

    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"


class RuleAction(StrEnum):
    """The action of a restart rule."""

    RESTART = "Restart"
    RESTART_ALL = "RestartAllContainers"


class ExitCodes(StrEnum):
    """The operator of a rule's exit codes."""

    IN = "In"
    NOT_IN = "NotIn"


def policy_for(container: V1Container, pods: RestartPolicy) -> RestartPolicy:
    """Return the policy of a container: its own, else the pod's."""
    return RestartPolicy(container.restart_policy) if container.restart_policy else pods


def policy_restarts(container: V1Container, pods: RestartPolicy, exit_code: int) -> bool:
    """Report whether the policy restarts a container with this exit code (pkg/api/v1/pod ContainerShouldRestart)."""
    if container.restart_policy and matching_rule(container, exit_code):
        return True  # both actions restart it; `restart_all` restarts the others
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
    """Name the probe for which the newest instance is stopped, if any; liveness comes first."""
    for kind in (ProbeKind.LIVENESS, ProbeKind.STARTUP):
        found = facts.probes.get(kind)
        if found is not None and not found.success:
            return kind
    return None


def regular_should_restart(
    container: V1Container, pods: RestartPolicy, facts: ContainerFacts, exit_code: int | None = None
) -> bool:
    """Report whether a regular container that has ended is restarted.

    Always after a stop for a resize or another image. After a failed probe whatever the exit code, and restart rules
    are not asked. `exit_code` is that of the newest instance if it is not given.
    """
    if facts.outdated or (facts.exit is not None and facts.stop_reason.endswith(NEEDS_RESTART)):
        return True
    if failed_probe(facts) is not None and policy_for(container, pods) is not RestartPolicy.NEVER:
        return True
    code = exit_code if exit_code is not None else facts.exit.exit_code if facts.exit else None
    return code is not None and policy_restarts(container, pods, code)


def init_should_restart(container: V1Container, pods: RestartPolicy, exit_code: int) -> bool:
    """Report whether an init container with this exit code is retried; if not, its failure fails the pod."""
    return exit_code != 0 and policy_restarts(container, pods, exit_code)


def matching_rule(container: V1Container, exit_code: int) -> V1ContainerRestartRule | None:
    """Find the first rule that matches this exit code; the others are ignored."""
    for rule in container.restart_policy_rules or ():
        if rule.exit_codes and matches(rule.exit_codes, exit_code):
            return rule
    return None


def matches(codes: V1ContainerRestartRuleOnExitCodes, exit_code: int) -> bool:
    """Report whether a rule's exit codes match this one."""
    listed = exit_code in (codes.values or ())
    match codes.operator:
        case ExitCodes.IN:
            return listed
        case ExitCodes.NOT_IN:
            return not listed
        case _:
            return False
