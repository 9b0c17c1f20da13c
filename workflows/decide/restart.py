"""Whether a container that has ended starts again (pkg/kubelet/container/helpers.go ShouldContainerBeRestarted)."""

from enum import StrEnum
from typing import assert_never

from proto.temporal.pod import ContainerFacts, Exit, ProbeKind


class RestartPolicy(StrEnum):
    """spec.restartPolicy."""

    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"


def starts_again(policy: RestartPolicy, ended: Exit) -> bool:
    """Say whether a regular container that ended this way is started again."""
    match policy:
        case RestartPolicy.ALWAYS:
            return True
        case RestartPolicy.ON_FAILURE:
            return ended.exit_code != 0
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


def comes_back(policy: RestartPolicy, facts: ContainerFacts) -> bool:
    """Say whether a regular container that has ended starts again: after a failed probe whatever its exit code."""
    if failed_probe(facts) is not None and policy is not RestartPolicy.NEVER:
        return True
    return facts.exit is not None and starts_again(policy, facts.exit)


def init_starts_again(policy: RestartPolicy, ended: Exit) -> bool:
    """Say whether an init container that ended this way is started again; with Never its failure fails the pod."""
    return ended.exit_code != 0 and policy is not RestartPolicy.NEVER
