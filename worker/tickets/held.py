"""Which activity may run: what the node holds of a workflow, compared with the ticket that the activity shows.

Pure. While two runs of one workflow may both be ours, the node holds two tickets: the one for the next run, and an earlier
one. The earlier one ends with the first activity that shows the other.
"""

from dataclasses import dataclass, replace
from enum import Enum

from proto.temporal.ticket import UNTICKETED, Ticket


class Verdict(Enum):
    """What the gate does with an activity."""

    PASSES = "passes"
    PARKED = "parked"
    """Something else leads the pod; the activity waits until it is cancelled."""
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Earlier:
    """The ticket of a run that may still be open."""

    ticket: Ticket
    run_id: str = ""
    """The only run that may show it; empty for any."""

    def is_of(self, incarnation: str, run_id: str) -> bool:
        """Report whether a run holds this ticket."""
        return incarnation == self.ticket.incarnation and self.run_id in {"", run_id}


@dataclass(frozen=True, slots=True)
class Held:
    """What the node holds of one workflow."""

    ticket: Ticket
    """Without an incarnation, no run but the earlier one may do anything: the pod's life is over."""
    earlier: Earlier | None = None

    @property
    def is_over(self) -> bool:
        """Report whether the workflow has completed, and was not started since."""
        return not self.ticket.incarnation

    def verdict(self, shown: Ticket, run_id: str) -> Verdict:
        """Judge an activity of a run by the ticket that it shows."""
        held = self.held_by(shown.incarnation, run_id)
        if held is None or shown.epoch > held.epoch:
            return Verdict.REFUSED
        return Verdict.PASSES if shown.epoch == held.epoch else Verdict.PARKED

    def held_by(self, incarnation: str, run_id: str) -> Ticket | None:
        """Return the ticket, as it is now, of a run with this incarnation; None if no such run is ours."""
        if incarnation and incarnation == self.ticket.incarnation:
            return self.ticket
        return self.earlier.ticket if self.earlier and self.earlier.is_of(incarnation, run_id) else None

    def is_earlier(self, shown: Ticket, run_id: str) -> bool:
        """Report whether a run holds the earlier ticket, so that its next run takes the newer one."""
        return shown.incarnation != self.ticket.incarnation and self.held_by(shown.incarnation, run_id) is not None

    def drawn(self, incarnation: str) -> "Held":
        """Begin another life after one that is over."""
        return replace(self, ticket=Ticket(incarnation)) if self.is_over else self

    def completed(self, shown: Ticket, run_id: str) -> "Held":
        """End the life, unless another ticket was drawn since.

        Only the run itself may go on: Temporal refuses its completion if a signal has come.
        """
        if not shown.incarnation or shown.incarnation != self.ticket.incarnation:
            return replace(self, earlier=Earlier(shown, run_id)) if self.is_earlier(shown, run_id) else self
        return Held(UNTICKETED, Earlier(self.ticket, run_id))

    def raised(self) -> "Held":
        """Raise the epoch, for the earlier run, too."""
        earlier = self.earlier and replace(self.earlier, ticket=_raised(self.earlier.ticket))
        return Held(_raised(self.ticket), earlier)

    def confirmed(self, shown: Ticket) -> "Held":
        """Drop the earlier ticket once an activity has shown the newer one."""
        return Held(self.ticket) if shown.incarnation and shown.incarnation == self.ticket.incarnation else self

    def known_as(self, ticket: Ticket) -> "Held":
        """Admit what the pod's snapshot says that its run holds: a run of a release without tickets was admitted before."""
        if ticket.incarnation or self.is_over or self.earlier:
            return self
        return replace(self, earlier=Earlier(Ticket(epoch=self.ticket.epoch)))


def _raised(ticket: Ticket) -> Ticket:
    return replace(ticket, epoch=ticket.epoch + 1)
