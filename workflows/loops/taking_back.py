"""A loop that takes its subject back after the node has led it while Temporal was away.

First arrives the story of that time, which stays in the history and is not kept, then the state. The run decides nothing
from the beginning of the story on, because what it knows is outdated, and ends with the state.
"""

import asyncio
from abc import abstractmethod
from typing import Any, ClassVar, Final

from proto.temporal import names
from proto.temporal.away import HandedBack, NodeHandedBack, WhileAway
from proto.temporal.ticket import Ticket
from workflows.decide.actions import Wake
from workflows.decide.record import hand_back
from workflows.decide.refusal import Refusal
from workflows.loops.arrival_loop import Arrival, ArrivalLoop, DriverOf

SHAPES: Final[dict[str, type]] = {names.WHILE_AWAY: WhileAway, names.HANDED_BACK: HandedBack}
NODE_SHAPES: Final[dict[str, type]] = {names.WHILE_AWAY: WhileAway, names.HANDED_BACK: NodeHandedBack}
State = HandedBack | NodeHandedBack


class TakingBack(ArrivalLoop[Arrival, DriverOf]):
    """Receives a hand-back."""

    subject: ClassVar[str] = "the pod"
    """What is handed back."""

    def __init__(self, driver: DriverOf, ticket: Ticket) -> None:
        """Take the ticket of this run: signals of an earlier hand-back, or of another life, are ignored."""
        super().__init__(driver)
        self._ticket = ticket
        self._handed: State | None = None
        self.is_handed_back = False
        """A hand-back has begun."""

    def queue(self, arrival: Any) -> None:
        """Queue an arrival; a hand-back is kept apart, because it comes before everything else."""
        if not isinstance(arrival, WhileAway | State):
            super().queue(arrival)
        elif hand_back.is_for(self._ticket, arrival):
            self.is_handed_back = True
            if isinstance(arrival, State) and (self._handed is None or arrival.epoch > self._handed.epoch):
                self._handed = arrival
            self.driver.notify()

    def has_news(self) -> bool:
        """Report whether something has arrived."""
        return super().has_news() or self.is_handed_back

    async def take_back_if_handed(self) -> None:
        """Wait for the state if a hand-back has begun; if it does not come in time, the run goes on as before."""
        while self.is_handed_back and self._handed is None:
            what = f"the node hands {self.subject} back"
            until = Wake(self.driver.now() + hand_back.LONGEST, what, "hand-back")
            try:
                await self.driver.wait(lambda: self._handed is not None, until=until)
            except TimeoutError:
                self.is_handed_back = False
            except asyncio.CancelledError:
                self.driver.logger.warning("a cancel is ignored while %s", what)
        if self._handed is not None:
            self.take_back(self._handed)

    def why_refused(self) -> Refusal | None:
        """Return why an Update is rejected during a hand-back; None if there is none."""
        return hand_back.REFUSAL if self.is_handed_back else None

    @abstractmethod
    def take_back(self, handed: Any) -> None:
        """Continue as new with the state."""
