"""The leads of some pods: the real `Leading` and `Answers` over a runtime, a journal and a Temporal in memory."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from activities.execution.present_attempts import PresentAttempts
from proto.temporal.node import NodeStart
from proto.temporal.pod import PodOutcome, PodStart
from tests.worker.stand_in.test_stand_in import plain_pod, quiet_world
from tests.worker.stand_in.world import World, at_once
from worker.delivery.lead import Message
from worker.stand_in.answers import Answers
from worker.stand_in.away import Limits
from worker.stand_in.dues import Dues
from worker.stand_in.hand_back.returned import HandedOver, Returned
from worker.stand_in.in_process_driver import Targets
from worker.stand_in.journal.kept import Story
from worker.stand_in.leading import Leading
from worker.stand_in.led_pods import Parts
from worker.stand_in.loop_lead import Means
from worker.stand_in.pod_journal import PodJournal
from worker.tickets.tickets import Tickets
from workflows.extern import Decided

AWAY_SECONDS = 5.0
DECIDED = Decided("run-1", 10)


def workflow_id(name: str) -> str:
    """Return the workflow id of a pod."""
    return f"pod/node-1/default/{name}/{name}"


class States:
    """What the journal has of each pod, and of the node."""

    def __init__(self) -> None:
        self.newest_of: dict[str, PodStart | NodeStart] = {}
        self.ended: list[str] = []
        """Pods whose story is told."""
        self.reads: Counter[str] = Counter()

    def workflows(self) -> frozenset[str]:
        """Return the pods that are known."""
        return frozenset(self.newest_of)

    def behaviour(self, workflow: str) -> int | None:
        """Return the number that it follows."""
        newest = self.newest_of.get(workflow)
        return newest.behaviour if newest else None

    def newest(self, workflow: str) -> PodStart | NodeStart | None:
        """Return the newest state."""
        self.reads[workflow] += 1
        return self.newest_of.get(workflow)

    def entries(self, _workflow: str) -> Story:
        """Return no story."""
        return Story()

    def end_story(self, workflow: str, _position: int) -> None:
        """Note it."""
        self.ended.append(workflow)

    def forget(self, workflow: str, _outcome: PodOutcome | None = None) -> None:
        """Forget a pod."""
        self.newest_of.pop(workflow, None)


class FullDisk(Tickets):
    """Tickets on a disk that may be full."""

    is_full = False

    def draw(self, workflow_id: str) -> Any:
        """Draw one, if there is room."""
        if self.is_full:
            raise OSError("no space left on device")
        return super().draw(workflow_id)


class Temporal:
    """Temporal, to which pods are handed back."""

    def __init__(self) -> None:
        self.is_up = False
        self.answers: dict[str, HandedOver] = {}
        """By workflow; any other is taken."""
        self.returned: list[Returned] = []
        self.open = asyncio.Event()
        """Hand-backs wait for it."""
        self.open.set()

    async def is_there(self) -> bool:
        """Answer or not."""
        return self.is_up

    async def failed_tasks(self, _workflow: str) -> int | None:
        """Say that none has failed."""
        return 0

    async def hand_back(self, pod: Returned) -> HandedOver:
        """Take a pod, or not."""
        self.returned.append(pod)
        await self.open.wait()
        return self.answers.get(pod.workflow_id, HandedOver.TAKEN)

    def tried(self) -> Iterator[str]:
        """Name the pods in the order in which they were handed back."""
        return (one.workflow_id.rpartition("/")[2] for one in self.returned)


class Node:
    """A worker whose leads are tested; the SDK's worker runs if `is_hosted`."""

    def __init__(self, folder: Path, *names: str) -> None:
        self.worlds = {workflow_id(name): named_world(name) for name in names}
        self.states, self.tickets, self.temporal = States(), FullDisk(folder), Temporal()
        self.dues, self.is_hosted, self.jumped = Dues(PresentAttempts()), True, 0.0
        self.is_replaying = False
        self.is_stopping = False
        self.leads_begun: list[str] = []
        self.name = SimpleNamespace(taken_by="", unsure=False)
        parts = Parts(
            dues=self.dues,
            journal=self.states,  # type: ignore[arg-type]  # has what is called
            tickets=self.tickets,
            means=self.means,
            newest=self.states.newest,
            temporal=self.temporal,
            unsettled=tuple,
            is_hosted=lambda: self.is_hosted,
            name=self.name,
            is_replaying=lambda: self.is_replaying,
            is_stopping=lambda: self.is_stopping,
        )
        for one, world in self.worlds.items():
            self.states.newest_of[one] = world.start()
            self.dues.decided(one, DECIDED)
        self.leading = Leading(parts, worker_id="w", limits=Limits(away=AWAY_SECONDS))
        self.answers = Answers(self.leading)

    def monotonic(self) -> float:
        """Return the machine's clock, which goes on while the worker is suspended."""
        return asyncio.get_running_loop().time() + self.jumped

    def means(self, workflow: str, epoch: int, _folded: int = 0) -> Means:
        """Return what a pod is led with."""
        world = self.worlds.setdefault(workflow, named_world(workflow.rpartition("/")[2]))
        self.leads_begun.append(workflow)
        journal = PodJournal(world.journal, workflow, None, len(world.journal.stories), in_thread=at_once)
        targets = Targets(world.snapshots.append, world.running.settled, world.deliver)
        return Means(world.activities, journal, targets, f"w/{epoch}", world.clock)

    def led(self) -> set[str]:
        """Name the pods that are led here."""
        return {one.rpartition("/")[2] for one in self.leading.led}

    def epoch(self, name: str) -> int:
        """Return the epoch of a pod's ticket."""
        ticket = self.tickets.of(workflow_id(name))
        return ticket.epoch if ticket else 0


def named_world(name: str) -> World:
    """Return the world of one quiet pod."""
    pod = plain_pod()
    pod["metadata"] |= {"name": name, "uid": name}
    return quiet_world(pod)


def said(name: str, signal: str, value: Any, due_for: float = 0.0) -> Message:
    """Return a message of the poller."""
    return Message(workflow_id(name), signal, value, "poller", 1, due_for)
