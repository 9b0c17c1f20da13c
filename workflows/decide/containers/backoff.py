"""How long a container that ended waits before it starts again, and an image before it is pulled again.

The kubelet's rule (pkg/kubelet/kuberuntime/kuberuntime_manager.go doBackOff over client-go's flowcontrol.Backoff): the
first restart comes at once and earns 10 s, each further one doubles what the next has to wait, up to the node's maximum;
a container that ran for ten minutes is forgiven. Answered from times in `Observed`, so a replay gives the same delay.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from proto.temporal.pod import ContainerFacts

INITIAL: Final = timedelta(seconds=10)
RESET_AFTER: Final = timedelta(minutes=10)
"""pkg/kubelet/kubelet.go HasExpiredFunc; not twice the maximum."""
NOT_PULLED: Final = frozenset({"ErrImageNeverPull", "ImageInspectError", "InvalidImageName"})
"""Failures before any pull: the kubelet tries again at its ordinary pace and never calls them a back-off."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """What earlier restarts have earned: the delay, and when the restart that earned it was begun."""

    delay: timedelta | None = None
    since: datetime | None = None

    def is_reset(self, at: datetime) -> bool:
        """Say whether something that ended at this time starts with a clean sheet."""
        return self.delay is None or self.since is None or at - self.since > RESET_AFTER


def backoff_of(facts: ContainerFacts) -> Backoff:
    """Say what a container's restarts have earned it so far."""
    return Backoff(facts.backoff, facts.backoff_at)


def due(backoff: Backoff, ended_at: datetime) -> datetime:
    """Say when what ended then may start again."""
    if backoff.is_reset(ended_at) or backoff.delay is None:
        return ended_at
    return ended_at + backoff.delay


def starts_at(facts: ContainerFacts) -> datetime | None:
    """Say when a container that is wanted may start again, an operator's skip included; None when it never ended."""
    if facts.exit is None or facts.exit.finished_at is None:
        return None
    at = due(backoff_of(facts), facts.exit.finished_at)
    return at if facts.skipped_at is None else min(at, facts.skipped_at)


def after_restart(backoff: Backoff, ended_at: datetime, now: datetime, maximum: timedelta) -> Backoff:
    """Say what the restart that begins now earns the next one."""
    if backoff.is_reset(ended_at) or backoff.delay is None:
        return Backoff(min(INITIAL, maximum), now)
    return Backoff(min(backoff.delay * 2, maximum), now)


def next_backoff(facts: ContainerFacts, now: datetime, maximum: timedelta) -> Backoff:
    """Say what a container will have earned by the restart that begins now."""
    ended_at = facts.exit.finished_at if facts.exit else None
    return after_restart(backoff_of(facts), ended_at or now, now, maximum)


def next_image_delay(previous: timedelta | None, initial: timedelta, maximum: timedelta) -> timedelta:
    """Say how long a failed pull waits: 10, 20, 40 … 300 s (pkg/kubelet/images/image_manager.go)."""
    return min(initial if previous is None else previous * 2, maximum)
