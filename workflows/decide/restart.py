"""Whether a container that has ended starts again (pkg/kubelet/container/helpers.go ShouldContainerBeRestarted)."""

from enum import StrEnum
from typing import assert_never

from proto.temporal.pod import Exit


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


def init_starts_again(policy: RestartPolicy, ended: Exit) -> bool:
    """Say whether an init container that ended this way is started again; with Never its failure fails the pod."""
    return ended.exit_code != 0 and policy is not RestartPolicy.NEVER
