"""Leads one pod, or what the node's pods share, while Temporal is away."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from proto.temporal.away import EntryKind, StoryEntry
from proto.temporal.names import PodWorkflowId, node_workflow_id
from proto.temporal.node import NodeStart, NodeStatus
from proto.temporal.operator import Explanation, Rejection
from proto.temporal.pod import PodStart
from worker.stand_in.in_process_driver import InProcessDriver, Left
from worker.stand_in.journal.kept import Start
from worker.stand_in.loop_lead import LONGEST_NAME, WRONG_TYPE, LoopLead, Means, NotLed
from worker.stand_in.recovery import fold, known_ends
from workflows.decide.refusal import Refusal
from workflows.loops.node_loop import REQUESTS as NODE_REQUESTS
from workflows.loops.node_loop import NodeLoop
from workflows.loops.operator_requests import REQUESTS
from workflows.loops.pod_loop import PodLoop


class RequestRefused(Exception):
    """An operator's request is refused."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class StandIn(LoopLead[PodLoop]):
    """The lead of one pod."""

    def __init__(self, start: PodStart, means: Means, tail: Iterable[StoryEntry] = ()) -> None:
        """Take the newest state, and what the journal has after it; the runtime may know more, and is read again."""
        meta = start.pod["metadata"]
        workflow_id = str(PodWorkflowId(start.node, meta["namespace"], meta["name"], meta["uid"]))
        if start.observed is not None:
            start = replace(start, observed=replace(start.observed, runtime_stale=True))
        super().__init__(workflow_id, start, means)
        fold(self._loop, self._driver, tail)
        means.journal.keep(replace(self._loop.start, observed=self._loop.observed))
        for entry in known_ends(self._loop.observed, self._driver.now()):
            means.journal.note(entry)

    def _new_loop(self, start: PodStart, driver: InProcessDriver) -> PodLoop:
        return PodLoop(start, driver)

    async def update(self, name: str, value: Any) -> Any:
        """Do what an operator asks; returns the answer once the state is on disk. Raises RequestRefused and NotLed."""
        asked = self._asked(name, value)
        answer = self._loop.refusal(name, asked) or self._loop.request(name, asked)
        if isinstance(answer, Refusal):
            raise RequestRefused(answer)
        self._means.journal.note(StoryEntry(self._driver.now(), EntryKind.UPDATED, name, value=answer))
        try:
            await self._driver.decided(lambda: not self._loop.arrived)
        except Left:
            raise NotLed from None
        await self._means.journal.flush()
        return answer

    def why_not(self, name: str, value: Any) -> Rejection | None:
        """Return why an update would be refused; None if it would not. Raises RequestRefused and NotLed."""
        refusal = self._loop.refusal(name, self._asked(name, value))
        return Rejection(refusal.reason, refusal.message) if refusal else None

    def explain(self) -> Explanation:
        """Explain what the pod waits for and what would happen next."""
        return self._loop.explain()

    def pod_status(self) -> dict[str, Any]:
        """Return V1PodStatus as JSON."""
        return self._loop.pod_status()

    def _asked(self, name: str, value: Any) -> Any:
        """Read a request; raises RequestRefused and NotLed."""
        self._require_lead()
        request = REQUESTS.get(name)
        return _not_malformed(name, None if request is None else self._read(value, request.shape))


class NodeStandIn(LoopLead[NodeLoop]):
    """The lead of a node's images."""

    def __init__(self, start: NodeStart, means: Means) -> None:
        """Take the newest state; what happened after it is seen again by the image watch, or told again."""
        super().__init__(node_workflow_id(start.node), start, means)

    def _new_loop(self, start: NodeStart, driver: InProcessDriver) -> NodeLoop:
        return NodeLoop(start, driver)

    async def update(self, name: str, value: Any) -> None:
        """Do what the poller asks; returns once the ledger with it is on disk. Raises RequestRefused and NotLed."""
        self._require_lead()
        shape = NODE_REQUESTS.get(name)
        asked = _not_malformed(name, None if shape is None else self._read(value, shape))
        loop = self._loop
        try:
            refusal = loop.refusal(asked) or await loop.request(asked)
            if refusal is None:
                await self._driver.decided(lambda: not self._loop.arrived)
        except Left:
            raise NotLed from None
        if refusal:
            raise RequestRefused(refusal)
        self._means.journal.note(StoryEntry(self._driver.now(), EntryKind.UPDATED, name))
        await self._means.journal.flush()

    def node_status(self) -> NodeStatus:
        """Return the state of the images and the ledger of hardware."""
        return self._loop.node_status()


def _not_malformed(name: str, asked: Any) -> Any:
    if asked is None:
        raise RequestRefused(Refusal("Malformed", f"the request {name[:LONGEST_NAME]} is refused: {WRONG_TYPE}"))
    return asked


def stand_in_of(start: Start, means: Means, tail: Iterable[StoryEntry] = ()) -> StandIn | NodeStandIn:
    """Return the lead of a pod, or of the node's images, by its newest state."""
    return StandIn(start, means, tail) if isinstance(start, PodStart) else NodeStandIn(start, means)
