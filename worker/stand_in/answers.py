"""Answers messages to pods, for this process and for the worker's socket (`worker/delivery/`): who leads them, and what they say."""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any, Final

from proto.temporal import names
from proto.temporal.node import NodeStart
from proto.temporal.operator import Rejection
from proto.temporal.pod import PodStart
from worker.delivery.lead import Answer, Lead, Leads, LeadUnavailable, Message, Reply
from worker.stand_in.leading import Leading
from worker.stand_in.led_pods import Led
from worker.stand_in.loop_lead import NotLed
from worker.stand_in.stand_in import NodeStandIn, RequestRefused, StandIn

SWITCHED_WITHIN: Final = 5.0
"""Seconds for which a message waits for a switch that is under way."""


class Answers(Lead):
    """The worker's side of all messages."""

    def __init__(self, leading: Leading) -> None:
        self._leading = leading

    async def deliver(self, message: Message) -> Answer:
        """Take a signal to a pod that this process leads."""
        led = await self._led(message)
        if led is None:
            return self._other(message.workflow_id)
        await _told(led.stand_in.deliver(message.name, message.value))
        return Answer.TAKEN

    async def start(self, start: PodStart | NodeStart, said: Message) -> Answer:
        """Start a pod, or the node's workflow, while Temporal is away, or tell one that is led here its first signal."""
        led = await self._led(said)
        if led is None and self._leading.away:
            led = await self._leading.begin(said.workflow_id, start)
        if led is None:
            return self._other(said.workflow_id)
        await _told(led.stand_in.deliver(said.name, said.value))
        return Answer.TAKEN

    async def update(self, asked: Message, answer: type) -> Reply:  # noqa: ARG002 - the Protocol's signature
        """Do what an operator asks of a pod, or the poller of the node, if this process leads it."""
        led = await self._led(asked)
        if led is None:
            return Reply(self._other(asked.workflow_id))
        try:
            return Reply(Answer.TAKEN, await _told(led.stand_in.update(asked.name, asked.value)))
        except RequestRefused as refused:
            return Reply(Answer.TAKEN, refusal=Rejection(refused.refusal.reason, refused.refusal.message))

    async def query(self, asked: Message, answer: type) -> Reply:  # noqa: ARG002 - the Protocol's signature
        """Answer a query about a pod that this process leads.

        A query that Temporal was slow to answer says nothing of Temporal later: unlike other messages it leaves no event from which
        to see that it was answered.
        """
        led = await self._led(replace(asked, due_for=0.0))
        if led is None:
            return Reply(self._other(asked.workflow_id))
        match asked.name, led.stand_in:
            case names.EXPLAIN, StandIn() as pod:
                return Reply(Answer.TAKEN, replace(pod.explain(), led_because=self._leading.because(asked.workflow_id)))
            case names.POD_STATUS, StandIn() as pod:
                return Reply(Answer.TAKEN, pod.pod_status())
            case names.NODE_STATUS, NodeStandIn() as images:
                return Reply(Answer.TAKEN, images.node_status())
            case other, _:
                raise LeadUnavailable(f"no query {other[:60]}")

    async def lead(self, workflow_id: str) -> Answer:
        """Return what a message to this pod would be answered, once no change of its lead is under way."""
        async with self._leading.locked(workflow_id):
            if workflow_id in self._leading.led:
                return Answer.TAKEN
            return self._other(workflow_id) if self._leading.is_settled else Answer.NOT_SETTLED

    async def leads(self, known: str) -> Leads:
        """Wait until the version is not `known`, and return who leads which pod."""
        while known == self._leading.version:
            await self._leading.turned()
        return self._leading.leads()

    async def _led(self, message: Message) -> Led | None:
        """Return the lead of a message's pod once no switch is under way; None if Temporal leads it."""
        workflow_id = message.workflow_id
        if message.due_for > 0 and workflow_id not in self._leading.led:
            await self._leading.due(workflow_id, message.name, message.due_for)
        led = self._leading.led.get(workflow_id)
        if led is not None and led.is_switching:
            try:
                async with asyncio.timeout(SWITCHED_WITHIN):
                    await led.switched.wait()
            except TimeoutError:
                raise LeadUnavailable("the pod is being handed back to Temporal") from None
        return self._leading.led.get(workflow_id)

    def _other(self, workflow_id: str) -> Answer:
        return Answer.TEMPORAL_LEADS if self._leading.knows(workflow_id) else Answer.UNKNOWN_POD


async def _told(telling: Awaitable[Any]) -> Any:
    try:
        return await telling
    except NotLed:
        raise LeadUnavailable("the pod has just been handed back, or has ended") from None
