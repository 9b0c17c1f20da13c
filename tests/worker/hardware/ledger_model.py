"""The part of the models of exclusive hardware that knows the ledger: pods ask it, its answer or the worker may be lost."""

from random import Random
from typing import Any

from activities.hardware.services import HardwareRefused
from proto.temporal.hardware.ledger import Admit, AllocateHardware, PodAssignment
from proto.temporal.node import NodeObserved
from worker.hardware.node_hardware import NodeHardware
from workflows.decide.node import ledger


class Killed(Exception):
    """The worker ends here."""


class LedgerModel:
    """One node; `running` are the pods that were told that they are admitted, with what they have."""

    worker: NodeHardware

    def __init__(self, seed: int) -> None:
        self.rng, self.observed = Random(seed), NodeObserved()
        self.running, self.waiting = dict[str, Any](), dict[str, dict[str, Any]]()
        self.pods = 0

    def started(self) -> NodeHardware:
        """Start a worker on what is on disk."""
        raise NotImplementedError

    async def chosen(self, action: AllocateHardware) -> PodAssignment:
        """Have the worker choose; raises Killed when it ends meanwhile."""
        raise NotImplementedError

    def told(self, uid: str, given: PodAssignment) -> None:
        """The pod starts."""
        raise NotImplementedError

    async def try_again(self) -> None:
        """A request that nobody has answered is sent again."""
        if self.waiting:
            await self.admit(self.rng.choice(sorted(self.waiting)))

    async def admit(self, uid: str) -> None:
        """Ask the ledger; any part of it may end."""
        asked = Admit(self.waiting[uid], tuple({*self.running, *self.waiting} - {uid}))
        if ledger.admitted(self.observed, asked):
            return self.told(uid, self.observed.assignments[uid])
        (action,) = ledger.allocations(self.observed, [asked], ())
        try:
            given = await self.chosen(action)
        except Killed:
            self.worker = self.started()
            return None
        except HardwareRefused:
            del self.waiting[uid]
            return None
        assert ledger.conflict(self.observed, action, given) is None
        ledger.recorded(self.observed, action, given)
        if self.rng.random() < 0.2:
            return None  # the answer is lost
        return self.told(uid, given)

    async def restart(self) -> None:
        """The worker is killed between two requests."""
        self.worker = self.started()
