"""Parts of the summaries that the Temporal UI shows of actions."""

from collections.abc import Sequence
from typing import Final

from proto.temporal.activities.requests import (
    ProbeContainer,
    RunHook,
)
from proto.temporal.pod import PodJson, ProbeKind

VOLUMES_NAMED: Final = 3
"""A summary names so many volumes, and counts more."""


def probe_kinds(asked: ProbeContainer) -> list[str]:
    """Name the probes of a request."""
    return [kind.value for kind in ProbeKind if asked.container.get(kind.field)]


def volume_names(asked: Sequence[PodJson]) -> str:
    """Name the volumes if they are few, else count them."""
    known = [str(one["name"]) for one in asked]
    few = len(known) <= VOLUMES_NAMED
    return f"volume{'s' * (len(known) > 1)} {', '.join(known)}" if few else f"{len(known)} volumes"


def hook_tries(asked: RunHook) -> str:
    """Say how often a hook may be tried, if more than once."""
    return f" (at most {asked.retry.max_attempts} tries)" if asked.retry else ""
