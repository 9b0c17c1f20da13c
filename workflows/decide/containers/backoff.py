"""Back-off: how long a container waits before a restart, and an image before the next pull.

The kubelet's rule (pkg/kubelet/kuberuntime/kuberuntime_manager.go doBackOff, client-go flowcontrol.Backoff): the first
restart is immediate. The second waits 10 s, and each further one twice as long, up to the node's maximum. After ten
minutes without a failure the back-off is reset. It is computed from times in `Observed`, so a replay gives the same
delay.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from proto.temporal.pod import ContainerFacts, Observed

INITIAL: Final = timedelta(seconds=10)
RESET_AFTER: Final = timedelta(minutes=10)
"""pkg/kubelet/kubelet.go HasExpiredFunc; it is not twice the maximum."""
NOT_PULLED: Final = frozenset({"ErrImageNeverPull", "ImageInspectError", "InvalidImageName"})
"""Failures before any pull. The kubelet retries them at its usual interval and never reports a back-off."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """The delay before the next restart, and when the last restart began."""

    delay: timedelta | None = None
    since: datetime | None = None

    def is_reset(self, at: datetime) -> bool:
        """Report whether a container that ended at this time has no back-off any more."""
        return self.delay is None or self.since is None or at - self.since > RESET_AFTER


def backoff_of(facts: ContainerFacts) -> Backoff:
    """Return a container's back-off so far."""
    return Backoff(facts.backoff, facts.backoff_at)


def due(backoff: Backoff, ended_at: datetime) -> datetime:
    """Return when a container that ended then may start again."""
    if backoff.is_reset(ended_at) or backoff.delay is None:
        return ended_at
    return ended_at + backoff.delay


def starts_at(facts: ContainerFacts) -> datetime | None:
    """Return when a container may start again, an operator's skip included; None if it never ended."""
    if facts.exit is None or facts.exit.finished_at is None:
        return None
    at = due(backoff_of(facts), facts.exit.finished_at)
    return at if facts.skipped_at is None else min(at, facts.skipped_at)


def after_restart(backoff: Backoff, ended_at: datetime, now: datetime, maximum: timedelta) -> Backoff:
    """Return the back-off after the restart that begins now."""
    if backoff.is_reset(ended_at) or backoff.delay is None:
        return Backoff(min(INITIAL, maximum), now)
    return Backoff(min(backoff.delay * 2, maximum), now)


def next_backoff(facts: ContainerFacts, now: datetime, maximum: timedelta) -> Backoff:
    """Return the back-off that a container has after the restart that begins now."""
    ended_at = facts.exit.finished_at if facts.exit else None
    return after_restart(backoff_of(facts), ended_at or now, now, maximum)


def forget_backoffs(observed: Observed) -> None:
    """End every back-off, as a restart of the machine does: the kubelet has them in memory. Restart counts stay.

    A container that this boot has started already does not wait after its next crash, either.
    """
    for facts in observed.containers.values():
        facts.backoff = facts.backoff_at = None
    for image in observed.images.values():
        image.backoff = None


def next_image_delay(previous: timedelta | None, initial: timedelta, maximum: timedelta) -> timedelta:
    """Return how long a failed pull waits: 10, 20, 40 … 300 s (pkg/kubelet/images/image_manager.go)."""
    return min(initial if previous is None else previous * 2, maximum)
