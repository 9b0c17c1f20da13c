"""A lead that takes the pods it is told to take, and writes down what it is told."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from proto.temporal.node import NodeStart
from proto.temporal.operator import Rejection
from proto.temporal.pod import PodStart
from worker.delivery.lead import Answer, Leads, Message, PodLead, Reply


@dataclass
class FakeLead:
    """Leads the pods of `pods`; changes are told to who waits for them."""

    pods: dict[str, PodLead] = field(default_factory=dict)
    takes_new: bool = False
    """It takes every pod that it is told of."""
    is_settled: bool = True
    unknown: set[str] = field(default_factory=set)
    told: list[tuple[str, str, Any]] = field(default_factory=list)
    """What was taken: workflow id, name, value."""
    refused: list[Message] = field(default_factory=list)
    """What was not taken."""
    started: list[PodStart | NodeStart] = field(default_factory=list)
    answers: dict[str, Any] = field(default_factory=dict)
    """The answers to Updates and queries by their names; a Rejection refuses."""
    name_taken: bool = False
    name_unsure: bool = False
    version: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    heard: asyncio.Event = field(default_factory=asyncio.Event)
    """Set with each message, taken or not."""

    def take(self, *workflow_ids: str) -> None:
        """Take the lead of pods."""
        self._turn(workflow_ids, by_worker=True)

    def let_go(self, *workflow_ids: str) -> None:
        """Let Temporal lead them again."""
        self._turn(workflow_ids, by_worker=False)

    def rename(self, *, taken: bool = False, unsure: bool = False) -> None:
        """Change whose this node's name is."""
        self.name_taken, self.name_unsure = taken, unsure
        self._turn((), by_worker=False)

    def settle(self) -> None:
        """Know from now on what Temporal has."""
        self.is_settled = True
        self._turn((), by_worker=False)

    def _turn(self, workflow_ids: tuple[str, ...], *, by_worker: bool) -> None:
        for one in workflow_ids:
            self.pods[one] = PodLead(by_worker, self.pods.get(one, PodLead()).epoch + 1)
        self.version += 1
        self.changed.set()
        self.changed = asyncio.Event()

    async def until(self, count: int) -> list[tuple[str, str, Any]]:
        """Wait until so many messages were taken."""
        while len(self.told) < count:
            self.heard.clear()
            await self.heard.wait()
        return self.told

    async def until_refused(self) -> Message:
        """Wait until a message was not taken."""
        while not self.refused:
            self.heard.clear()
            await self.heard.wait()
        return self.refused[-1]

    async def deliver(self, message: Message) -> Answer:
        """Take it, if this lead leads the pod."""
        if self.takes_new and message.workflow_id not in self.pods:
            self.take(message.workflow_id)
        answer = await self.lead(message.workflow_id)
        if answer is Answer.TAKEN:
            self.told.append((message.workflow_id, message.name, message.value))
        else:
            self.refused.append(message)
        self.heard.set()
        return answer

    async def start(self, start: PodStart | NodeStart, said: Message) -> Answer:
        """Start it, if this lead leads the pod."""
        answer = await self.deliver(said)
        if answer is Answer.TAKEN:
            self.started.append(start)
        return answer

    async def update(self, asked: Message, answer: type) -> Reply:  # noqa: ARG002 - the Protocol's
        """Answer as the test says."""
        taken = await self.deliver(asked)
        said = self.answers.get(asked.name)
        if taken is not Answer.TAKEN:
            return Reply(taken)
        return Reply(taken, refusal=said) if isinstance(said, Rejection) else Reply(taken, said)

    async def query(self, asked: Message, answer: type) -> Reply:
        """Answer as the test says."""
        return await self.update(asked, answer)

    async def lead(self, workflow_id: str) -> Answer:
        """Return who leads."""
        if workflow_id in self.unknown:
            return Answer.UNKNOWN_POD
        if self.pods.get(workflow_id, PodLead()).by_worker:
            return Answer.TAKEN
        return Answer.TEMPORAL_LEADS if self.is_settled else Answer.NOT_SETTLED

    async def leads(self, known: str) -> Leads:
        """Wait for a change."""
        while known == str(self.version):
            await self.changed.wait()
        return Leads(str(self.version), dict(self.pods), self.name_taken, self.name_unsure, self.is_settled)
