"""Who leads a pod: its workflow in Temporal or, while Temporal is away, this node's worker.

The worker alone decides that, behind the Protocol `Lead`. Senders of messages ask it in their own process (the worker's loops)
or through its socket (`client.py`: the poller, the commands).
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol

from proto.temporal.node import NodeStart
from proto.temporal.operator import Rejection
from proto.temporal.pod import PodStart


class Answer(StrEnum):
    """What becomes of a message that the worker is told."""

    TAKEN = "taken"
    """The worker leads the pod and has taken the message; also if the pod has ended under its lead."""
    TEMPORAL_LEADS = "temporalLeads"
    """The message belongs to Temporal, and was not taken."""
    NOT_SETTLED = "notSettled"
    """Who leads the pod is not settled yet: nobody may start it."""
    UNKNOWN_POD = "unknownPod"
    """The worker knows no such pod; whether there is one, only Temporal can tell."""


@dataclass(frozen=True, slots=True)
class Message:
    """A signal or a request to a pod's workflow."""

    workflow_id: str
    name: str
    """The signal's, the Update's or the query's (`proto/temporal/names.py`)."""
    value: Any = field(default=None, repr=False)
    """Of the type that the workflow reads; None for a query."""
    source: str = ""
    """Who numbers it: poller, worker, command."""
    number: int = 0
    due_for: float = 0.0
    """The seconds for which Temporal has not taken it; from them the worker judges whether Temporal is away."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The worker's answer to an Update or a query."""

    answer: Answer
    value: Any = field(default=None, repr=False)
    """What the pod answers, if the message was taken and not refused."""
    refusal: Rejection | None = None


@dataclass(frozen=True, slots=True)
class PodLead:
    """Who leads one pod."""

    by_worker: bool = False
    epoch: int = 0
    """Raised with each change, so that a change that was not seen is known afterwards."""


@dataclass(frozen=True, slots=True)
class Leads:
    """Who leads which pod, at one time."""

    version: str
    """Another one after each change, and in each worker process."""
    pods: Mapping[str, PodLead] = field(default_factory=dict)
    """By workflow id; one that is missing is led by Temporal, as it always was."""
    name_taken: bool = False
    """Another machine has this node's name: nothing is sent to Temporal, because it would reach that one's pods."""
    name_unsure: bool = False
    """Temporal did not answer, so another machine may have taken the name meanwhile: what is for Temporal waits."""
    is_settled: bool = True
    """The worker has compared what Temporal has with what it has; until then nobody may take a pod for one without a workflow."""


class LeadUnavailable(Exception):
    """The worker does not answer, or cannot answer this; the message may have been taken."""


class NameTaken(LeadUnavailable):
    """Another machine has this node's name, or may have it: nothing is sent to Temporal."""


class Lead(Protocol):
    """The worker's side of all messages. Each may come twice, and after newer ones."""

    async def deliver(self, message: Message) -> Answer:
        """Take a signal to a pod that the worker leads."""
        ...

    async def start(self, start: PodStart | NodeStart, said: Message) -> Answer:
        """Start a pod and tell it its first signal; tell the signal alone to a pod that the worker leads already."""
        ...

    async def update(self, asked: Message, answer: type) -> Reply:
        """Take an operator's request; `answer` is the type of what the pod answers."""
        ...

    async def query(self, asked: Message, answer: type) -> Reply:
        """Ask a pod that the worker leads."""
        ...

    async def lead(self, workflow_id: str) -> Answer:
        """Return what a message to this pod would be answered."""
        ...

    async def leads(self, known: str) -> Leads:
        """Wait until the version is not `known`, and return who leads which pod."""
        ...


class TemporalLeads:
    """The lead of a worker that leads no pod itself."""

    VERSION: Final = "temporal"

    async def deliver(self, message: Message) -> Answer:  # noqa: ARG002 - the Protocol's signatures; whatever it is
        """Take nothing."""
        return Answer.TEMPORAL_LEADS

    async def start(self, start: PodStart | NodeStart, said: Message) -> Answer:  # noqa: ARG002
        """Start nothing."""
        return Answer.TEMPORAL_LEADS

    async def update(self, asked: Message, answer: type) -> Reply:  # noqa: ARG002
        """Take nothing."""
        return Reply(Answer.TEMPORAL_LEADS)

    async def query(self, asked: Message, answer: type) -> Reply:  # noqa: ARG002
        """Answer nothing."""
        return Reply(Answer.TEMPORAL_LEADS)

    async def lead(self, workflow_id: str) -> Answer:  # noqa: ARG002
        """Return that Temporal leads."""
        return Answer.TEMPORAL_LEADS

    async def leads(self, known: str) -> Leads:
        """Return that Temporal leads all pods; that never changes."""
        if known == self.VERSION:
            await asyncio.Event().wait()
        return Leads(self.VERSION)
