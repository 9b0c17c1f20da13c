"""The ticket of a workflow's run, by which the node recognizes the runs that it has started itself.

It stands in the run's input and, sealed, in a header of each of its activities (`worker/tickets/`). Fields are only ever added,
each with a default.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Ticket:
    """Which life of a pod a run belongs to, and since when it leads the pod."""

    incarnation: str = ""
    """A random name of this life, drawn when the workflow is started; empty in a run of a release that drew none."""
    epoch: int = 0
    """Raised when something else than the run takes the lead: the run may do nothing more until it has the new number."""

    def is_of_life(self, incarnation: str) -> bool:
        """Report whether this may be a ticket of that life: a pod that comes back has another one under the same workflow id.

        Where one of the two is not known, a release that drew no tickets, or named none, has written it.
        """
        return self.incarnation in ("", incarnation) or not incarnation


UNTICKETED: Final = Ticket()
"""The ticket of a run that has none."""
