"""How often a device plugin registers, and what is logged of it: a plugin may do it each second, for ever.

A kubelet logs each registration.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

WITHIN: Final = 60.0
"""Seconds in which registrations are counted."""
MANY: Final = 6
"""So many are often."""
FEW: Final = 2
"""So many are not often any more. Between the two stays what was, so that the log does not change its mind all the time."""


class Said(Enum):
    """What is logged of a registration."""

    IT = auto()
    OFTEN = auto()
    """That it registers often, and no more of it is logged until that is over."""
    NOTHING = auto()


@dataclass(frozen=True, slots=True)
class Registrations:
    """Those of one resource's plugins that still count."""

    times: tuple[float, ...] = ()
    """The last ones, in seconds; not more than are many."""
    is_often: bool = False

    def with_one(self, now: float) -> tuple["Registrations", Said]:
        """Count one more, and say what is logged of it."""
        times = (*(one for one in self.times if now - one < WITHIN), now)[-MANY:]
        is_often = len(times) >= MANY or (self.is_often and len(times) > FEW)
        said = Said.IT if not is_often else Said.NOTHING if self.is_often else Said.OFTEN
        return Registrations(times, is_often), said
