"""The pods that this process leads without Temporal, and the node's images: begins leads, and says which there are."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from time import monotonic
from typing import Final, Protocol

import structlog

from activities.execution.pod_locks import PodLocks
from proto.temporal.pod import PodOutcome
from worker.delivery.lead import Leads, PodLead
from worker.stand_in.dues import Dues
from worker.stand_in.hand_back.returned import HandBack
from worker.stand_in.hand_back.returns import Stay, Trouble, failed, words
from worker.stand_in.journal.journal import Journal
from worker.stand_in.journal.kept import Kept, NumberedEntry, Start, is_node
from worker.stand_in.loop_lead import Means
from worker.stand_in.stand_in import NodeStandIn, StandIn, stand_in_of
from worker.tickets.tickets import Tickets
from workflows.decide.versions import KNOWN, why_unknown

TRIED_AGAIN: Final = 60.0
"""Seconds until a pod is tried again that could not be led, or whose workflow Temporal does not let take it."""

_log: Final = structlog.get_logger(__name__)


@dataclass(slots=True)
class Led:
    """A pod that this process leads, or the node's images."""

    stand_in: StandIn | NodeStandIn
    epoch: int
    since: datetime
    why: str
    task: "asyncio.Task[PodOutcome | None]"
    is_switching: bool = False
    """It is being handed back."""
    switched: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once that has succeeded or failed."""


class NodeName(Protocol):
    """Whose this node's name is (`worker/host/temporal/node_name.py`)."""

    taken_by: str
    """Which other machine has it, so that nothing is led here; empty for none."""
    unsure: bool
    """Another machine may have taken it."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What pods are led with."""

    dues: Dues
    journal: Journal
    tickets: Tickets
    means: Callable[[str, int, int], Means]
    """(workflow id, epoch, position up to which the state has the entries of the journal)."""
    newest: Callable[[str], Start | None]
    """(workflow id) -> its newest state, once its epoch was raised; blocks."""
    temporal: HandBack
    unsettled: Callable[[], Iterable[tuple[str, str]]]
    """Workflow and key of each answer that no history has."""
    is_hosted: Callable[[], bool]
    """Whether the SDK's worker runs: without it, everything of every pod is due."""
    name: NodeName
    is_replaying: Callable[[], bool] = lambda: False
    """Whether it is about to run: Temporal answers, and open histories are being replayed."""
    is_stopping: Callable[[], bool] = lambda: False
    """Whether this process ends: then the SDK's worker does not run, which says nothing of Temporal."""


class LedPods:
    """The pods that this process leads; use it from one event loop."""

    def __init__(self, parts: Parts, *, worker_id: str) -> None:
        self.parts, self._worker_id = parts, worker_id
        self.led: dict[str, Led] = {}
        """By workflow id."""
        self.handed_back: dict[str, PodLead] = {}
        self.not_before: dict[str, float] = {}
        """When a pod is tried again that could not be led, or that Temporal did not take, in seconds of the monotonic clock."""
        self.is_settled = False
        """It was compared what Temporal has (`comparing/`)."""
        self.stays: dict[str, Stay] = {}
        """Pods whose own workflow does not work, or did not lately."""
        self.replaced: set[str] = set()
        """Pods whose open run does not replay, so that nobody needs to wait whether it takes them back."""
        self._interrupted: list[str] = []
        """Pods that were led when all leads were interrupted."""
        self._version = 0
        self._turned = asyncio.Event()
        self._locks = PodLocks()

    @property
    def version(self) -> str:
        """Return another text after each change of a lead."""
        return f"{self._worker_id}/{self._version}"

    def leads(self) -> Leads:
        """Return who leads which pod."""
        by_worker = {one: PodLead(by_worker=True, epoch=led.epoch) for one, led in self.led.items()}
        name = self.parts.name
        return Leads(self.version, self.handed_back | by_worker, bool(name.taken_by), name.unsure, self.is_settled)

    async def turned(self) -> None:
        """Wait for the next change of a lead."""
        await self._turned.wait()

    def pods(self) -> int:
        """Return how many pods are led here."""
        return sum(not is_node(one) for one in [*self.led])

    def knows(self, workflow_id: str) -> bool:
        """Report whether the state of this workflow is known."""
        return workflow_id in self.parts.journal.workflows()

    async def take_over(self, workflow_id: str, why: str, kept: Kept | None = None) -> None:
        """Lead a pod from its last decision on; nothing happens if none is known."""
        async with self.locked(workflow_id):
            if workflow_id in self.led or monotonic() < self.not_before.get(workflow_id, 0.0):
                return
            behaviour = kept.start.behaviour if kept else self.parts.journal.behaviour(workflow_id)
            if behaviour is None or not self._can_lead(workflow_id, behaviour):
                return
            tail = kept.tail.entries if kept else ()
            read = partial(self.parts.newest, workflow_id)
            await self.lead(workflow_id, (lambda: kept.start) if kept else read, why=why, tail=tail)
            if workflow_id in self.led:
                _log.info(f"leads {subject(workflow_id)} without Temporal", workflow=workflow_id, reason=why)

    def _can_lead(self, workflow_id: str, behaviour: int) -> bool:
        """Report whether this release knows the behaviour of a workflow; otherwise its ticket stays as it is, for the release that does."""
        why = why_unknown(behaviour, KNOWN["node" if is_node(workflow_id) else "pods"])
        if why:
            self.not_before[workflow_id] = monotonic() + TRIED_AGAIN
            _log.error(f"cannot lead {subject(workflow_id)} without Temporal", workflow=workflow_id, err=why)
        return not why

    def keep(self, workflow_id: str, trouble: Trouble) -> None:
        """Keep a pod that is led here for a while: its own workflow does not work."""
        now = monotonic()
        stay = self.stays[workflow_id] = failed(self.stays.get(workflow_id), trouble, now)
        self.not_before[workflow_id] = stay.until
        if stay.is_kept:
            seconds = round(stay.until - now)
            _log.warning(
                f"keeps {subject(workflow_id)}: {trouble} whenever it is handed back",
                workflow=workflow_id,
                times=stay.failures,
                next_try_in=seconds,
            )

    def because(self, workflow_id: str) -> str:
        """Say why a workflow is led here, and how long it is kept."""
        led, stay = self.led.get(workflow_id), self.stays.get(workflow_id)
        if led is None or stay is None:
            return led.why if led else ""
        return led.why + words(stay, datetime.now(UTC) + timedelta(seconds=max(0.0, stay.until - monotonic())))

    def kept(self) -> list[str]:
        """Return the pods that are led here because their workflows failed again after a hand-back."""
        return sorted(one for one in [*self.led] if not is_node(one) and (stay := self.stays.get(one)) and stay.is_kept)

    async def lead_instead(self, workflow_id: str, why: str) -> bool:
        """Lead a pod whose open run this code cannot replay, until another run takes its place; False if its state is not known."""
        self.replaced.add(workflow_id)
        await self.take_over(workflow_id, why)
        return workflow_id in self.led

    async def lead(
        self,
        workflow_id: str,
        state: Callable[[], Start | None],
        *,
        why: str,
        since: datetime | None = None,
        tail: Sequence[NumberedEntry] = (),
    ) -> None:
        """Lead a pod from this state, which is read, in a thread, once nothing else leads it; one that cannot be led is tried again later."""
        try:
            ticket = await asyncio.to_thread(self.parts.tickets.raise_epoch, workflow_id)
            start = await asyncio.to_thread(state)
            if start is None:
                return
            means = self.parts.means(workflow_id, ticket.epoch, tail[-1].position if tail else 0)
            stand_in = stand_in_of(replace(start, ticket=ticket), means, [one.entry for one in tail])
        except Exception as error:  # noqa: BLE001 - a disk that takes no ticket, or a damaged state: other pods must not wait
            self.not_before[workflow_id] = monotonic() + TRIED_AGAIN
            _log.error(
                f"cannot lead {subject(workflow_id)} without Temporal",
                workflow=workflow_id,
                err=f"{type(error).__name__}: {error}",
            )
            return
        task = asyncio.create_task(stand_in.lead(), name=f"lead of {workflow_id}")
        self.led[workflow_id] = Led(stand_in, ticket.epoch, since or datetime.now(UTC), why, task)
        self.parts.dues.forget(workflow_id)
        self.turn()

    async def lead_new(self, workflow_id: str, start: Start, why: str) -> None:
        """Lead a pod that begins, or the images of a node that has no workflow. The epoch is raised, because a start that was sent to Temporal before may still arrive there."""
        async with self.locked(workflow_id):
            if workflow_id not in self.led:
                await self.lead(workflow_id, lambda: start, why=why)

    async def interrupt(self) -> None:
        """End all leads; what is under way goes on, and the journal has the states."""
        tasks, self._interrupted = [led.task for led in self.led.values()], [*self._interrupted, *self.led]
        self.led.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def lead_interrupted(self) -> None:
        """Lead on what was interrupted."""
        interrupted, self._interrupted = self._interrupted, []
        for workflow_id in interrupted:
            await self.take_over(workflow_id, "its lead was interrupted")

    def locked(self, workflow_id: str) -> AbstractAsyncContextManager[None]:
        """Let nothing else change the lead of a pod while the block runs."""
        return self._locks.hold(workflow_id)

    def forget(self, workflow_id: str) -> None:
        """Remember nothing of a pod that is gone; any thread may call it."""
        self.handed_back.pop(workflow_id, None)
        self.not_before.pop(workflow_id, None)
        self.stays.pop(workflow_id, None)
        self.replaced.discard(workflow_id)

    def settle(self, is_settled: bool) -> None:  # noqa: FBT001 - a fact
        """Take whether it is settled which pods Temporal leads."""
        self.is_settled = is_settled
        self.turn()

    def turn(self) -> None:
        """Tell that a lead has changed."""
        self._version += 1
        self._turned.set()
        self._turned = asyncio.Event()


def subject(workflow_id: str) -> str:
    """Say what a workflow leads."""
    return "the node's images" if is_node(workflow_id) else "a pod"
