"""Is a pod handed back once, whatever Temporal has of it, and wherever a worker ended while it handed the pod back?"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from pydantic import TypeAdapter
from temporalio.api.common.v1 import GrpcStatus
from temporalio.api.errordetails.v1 import ResourceExhaustedFailure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import PauseWorkflowExecutionRequest
from temporalio.client import WorkflowHandle
from temporalio.converter import WorkflowSerializationContext
from temporalio.service import RPCError, RPCStatusCode

from proto.temporal import names
from proto.temporal.activities.requests import StartContainer
from proto.temporal.away import EntryKind, HandedBack, StoryEntry, WhileAway
from proto.temporal.pod import Lifecycle, Observed, PodJson, PodOutcome, PodStart
from proto.temporal.ticket import Ticket
from tests.patience import PATIENCE
from tests.workflows.conftest import QUICK, Node, client, node, pod_json
from worker.history.story import build_story
from worker.stand_in.hand_back import handing_back
from worker.stand_in.hand_back.handing_back import HandingBack
from worker.stand_in.hand_back.returned import HandedOver, Returned
from worker.stand_in.journal.kept import NumberedEntry, Story
from worker.temporal.call_budget import BUSY
from worker.temporal.executions import COMPLETED, describe_execution, is_open, list_executions

__all__ = ["client", "node"]  # fixtures of other files
SINCE = datetime(2026, 11, 23, 17, 0, tzinfo=UTC)
ENTRIES = tuple(
    NumberedEntry(
        number, StoryEntry(SINCE + timedelta(seconds=number), EntryKind.WAITED, f"{number}" + "." * 25_000, value=1)
    )
    for number in range(1, 6)
)
"""They need three signals."""
OVER = Observed(lifecycle=Lifecycle.TERMINATED, cleaned=True, started_at=SINCE)
Handle = WorkflowHandle[Any, PodOutcome]


def returned(node: Node, pod: PodJson, observed: Observed | None, epoch: int = 1, **more: Any) -> Returned:
    """Hand a pod back in this state."""
    start = PodStart(node.name, pod, path="web.yaml", behaviour=4, settings=QUICK, observed=observed)
    outcome: PodOutcome | None = more.pop("outcome", None)
    start = replace(start, ticket=Ticket(more.pop("life", ""), epoch), **more)
    return Returned(node.workflow_id(pod), start, outcome, SINCE, Story(ENTRIES))


async def running(node: Node) -> tuple[PodJson, Handle, Observed]:
    """Start a pod; returns it with what its workflow knows once it is ready."""
    pod = pod_json()
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    await handle.query(names.POD_STATUS)
    kept = newest_state(node, pod)
    assert kept
    assert kept.observed
    return pod, handle, replace(kept.observed, runtime_stale=True)


def newest_state(node: Node, pod: PodJson) -> PodStart | None:
    """Return what the node's journal has of a pod; None if nothing was decided about it."""
    uid = pod["metadata"]["uid"]
    starts = (TypeAdapter(PodStart).validate_json(one) for *_, one in reversed(node.kept))
    return next((one for one in starts if one.pod["metadata"]["uid"] == uid), None)


async def runs_of(node: Node, pod: PodJson) -> list[Sequence[HistoryEvent]]:
    """Return the decrypted events of all runs of a pod's workflow, oldest first."""
    workflow_id = node.workflow_id(pod)
    bound = node.client.data_converter.with_context(WorkflowSerializationContext(node.client.namespace, workflow_id))
    found = []
    async with asyncio.timeout(PATIENCE):
        newest = (await node.newest(pod).describe()).run_id
        listed: list[str] = []
        while newest not in listed:  # visibility lags
            query = f"WorkflowId = '{workflow_id}'"
            every = [one async for one in list_executions(node.client, query)]
            listed = [one.run_id for one in sorted(every, key=lambda one: one.start_time)]
    for run_id in listed:
        history = await node.client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history()
        for event in history.events:
            which = event.WhichOneof("attributes")
            if which in ("workflow_execution_started_event_attributes", "workflow_execution_signaled_event_attributes"):
                said = getattr(event, which)
                assert bound.payload_codec
                opened = await bound.payload_codec.decode(said.input.payloads)
                del said.input.payloads[:]
                said.input.payloads.extend(opened)
        found.append(history.events)
    return found


def positions(runs: Sequence[Sequence[HistoryEvent]]) -> Counter[int]:
    """Count how often each entry is in the history."""
    found: Counter[int] = Counter()
    for event in (one for run in runs for one in run):
        said = event.workflow_execution_signaled_event_attributes
        if said.signal_name == names.WHILE_AWAY:
            part = TypeAdapter(WhileAway).validate_json(said.input.payloads[0].data)
            found.update(range(part.first, part.first + len(part.entries)))
    return found


def starts(runs: Sequence[Sequence[HistoryEvent]]) -> list[PodStart]:
    """Return what each run was started with."""
    inputs = [run[0].workflow_execution_started_event_attributes.input.payloads[0].data for run in runs]
    return [TypeAdapter(PodStart).validate_json(one) for one in inputs]


def waits_told(runs: Sequence[Sequence[HistoryEvent]]) -> list[str]:
    """Return which entries the story tells."""
    return [line.text.split(": ")[1][:1] for line in build_story(runs).lines if line.while_away]


async def test_an_open_run_takes_it(node: Node) -> None:
    """The story comes first, in three parts; the next run has the state, and the containers run on."""
    pod, _, observed = await running(node)
    before = len(node.runtime.named(names.START_CONTAINER))
    assert await HandingBack(node.client).hand_back(returned(node, pod, observed)) is HandedOver.TAKEN
    await node.until(pod, lambda one: one.ready)
    runs = await runs_of(node, pod)
    assert [one.ticket.epoch for one in starts(runs)] == [0, 1]
    assert positions(runs) == Counter(range(1, 6))
    assert waits_told(runs) == ["1", "2", "3", "4", "5"]
    assert len(node.runtime.named(names.START_CONTAINER)) == before
    await node.delete(node.newest(pod))


@pytest.mark.parametrize(
    "is_over", [True, False], ids=["its-manifest-came-back-while-away", "somebody-has-captured-its-start"]
)
async def test_a_run_of_an_earlier_life_has_not_taken_it(node: Node, is_over: bool) -> None:
    """Its epoch is higher, because that life had more outages; its workflow id is the same."""
    pod = pod_json()
    handing = HandingBack(node.client, taken_within=timedelta(seconds=1), task_timeout=timedelta(seconds=7))
    earlier = returned(node, pod, OVER if is_over else Observed(started_at=SINCE), 5, life="earlier")
    assert await handing.hand_back(earlier) is HandedOver.TAKEN
    assert await handing.hand_back(returned(node, pod, Observed(started_at=SINCE), 1, life="now")) is HandedOver.TAKEN
    await node.until(pod, lambda one: one.ready)
    runs = await runs_of(node, pod)
    assert starts(runs)[-1].ticket == Ticket("now", 1)
    described = await describe_execution(node.client, node.workflow_id(pod))
    assert is_open_run(described)
    assert described.execution_config.default_workflow_task_timeout.seconds == 7
    await node.delete(node.newest(pod))


def test_the_id_of_a_signal_tells_nothing_of_its_content() -> None:
    """Ids are not encrypted: whoever reads the database could try out what somebody has written into a pod."""
    entry = ENTRIES[0].entry
    part = WhileAway(1, 1, (entry,))
    ids = [handing_back._request_id(one) for one in (part, replace(part, entries=(replace(entry, value="guess"),)))]
    assert ids[0] == ids[1]
    assert handing_back._request_id(replace(part, first=2)) != ids[0]
    later = replace(part, entries=(replace(entry, at=entry.at + timedelta(microseconds=1)),))
    assert handing_back._request_id(later) != ids[0], "the journal was lost, and its positions begin anew"
    state = HandedBack(1, SINCE, SINCE, Observed(started_at=SINCE), pod_json())
    assert handing_back._request_id(state) != handing_back._request_id(state)


class WorkerEnded(Exception):
    """The worker ends here."""


@dataclass
class EndingWorker(HandingBack):
    """Hands back until a step."""

    client: Any
    steps: int
    """It ends before the step after these."""
    taken: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(self.client)

    def step(self, name: str) -> None:
        """Take a step."""
        if len(self.taken) == self.steps:
            raise WorkerEnded
        self.taken.append(name)

    async def _look(self, workflow_id: str) -> Any:
        self.step("look")
        return await super()._look(workflow_id)

    async def _signal(self, workflow_id: str, run_id: str, signal: Any) -> None:
        self.step(type(signal).__name__)
        await super()._signal(workflow_id, run_id, signal)

    async def _start(self, *values: Any) -> str:
        self.step("start")
        return await super()._start(*values)

    async def _closed(self, *values: Any) -> None:
        self.step("wait")
        await super()._closed(*values)


@pytest.mark.parametrize("is_open", [True, False], ids=["open", "born-while-away"])
async def test_a_worker_may_end_between_any_two_steps(node: Node, is_open: bool) -> None:
    """The next one hands the pod back with the next epoch: every entry is in the history once, and one run is open."""

    async def with_end_after(steps: int) -> list[str]:
        pod, observed = pod_json(), Observed(started_at=SINCE)
        if is_open:
            pod, _, observed = await running(node)
        ending = EndingWorker(node.client, steps)
        try:
            await ending.hand_back(returned(node, pod, observed, 1))
        except WorkerEnded:
            kept = newest_state(node, pod)  # a run may have gone on with what the first worker handed back
            if kept and kept.observed:
                observed = replace(kept.observed, runtime_stale=True)
            again = returned(node, pod, observed, 2, under_way=kept.under_way if kept else ())
            assert await HandingBack(node.client).hand_back(again) is HandedOver.TAKEN
        await node.until(pod, lambda one: one.ready)
        runs = await runs_of(node, pod)
        assert positions(runs) == Counter(range(1, 6)), ending.taken
        assert waits_told(runs) == ["1", "2", "3", "4", "5"]
        described = await describe_execution(node.client, node.workflow_id(pod))
        assert is_open_run(described)
        await node.delete(node.newest(pod))
        return ending.taken

    taken = [await with_end_after(steps) for steps in range(7)]  # the model of the runtime holds one pod at a time
    assert max(map(len, taken)) >= 6, "every step had its turn"


def is_open_run(described: Any) -> bool:
    """Report whether the newest run is open."""
    return is_open(int(described.workflow_execution_info.status))


async def test_the_same_hand_back_again_changes_nothing(node: Node) -> None:
    """Temporal took it, and the worker ended before it had noted that."""
    pod, _, observed = await running(node)
    for _ in range(2):
        assert await HandingBack(node.client).hand_back(returned(node, pod, observed)) is HandedOver.TAKEN
    runs = await runs_of(node, pod)
    assert len(runs) == 2
    assert positions(runs) == Counter(range(1, 6))
    await node.delete(node.newest(pod))


async def test_a_closed_run_is_followed_by_another_one(node: Node) -> None:
    """An operator has terminated it while the node led the pod."""
    pod, handle, observed = await running(node)
    await handle.terminate("by hand")
    before = len(node.runtime.named(names.START_CONTAINER))
    assert await HandingBack(node.client).hand_back(returned(node, pod, observed)) is HandedOver.TAKEN
    await node.until(pod, lambda one: one.ready)
    runs = await runs_of(node, pod)
    assert [one.ticket.epoch for one in starts(runs)] == [0, 0, 1]
    assert positions(runs) == Counter(range(1, 6))
    assert len(node.runtime.named(names.START_CONTAINER)) == before
    await node.delete(node.newest(pod))


async def test_a_run_of_another_life_is_replaced(node: Node) -> None:
    """Another machine had this node's name: its run has another ticket, however high its epoch."""
    pod, handle, observed = await running(node)
    await handle.terminate("their worker does not know its ticket")
    theirs, ours = (returned(node, pod, observed, epoch) for epoch in (7, 1))
    theirs = replace(theirs, start=replace(theirs.start, ticket=Ticket("theirs", 7)))
    assert await HandingBack(node.client).hand_back(theirs) is HandedOver.TAKEN
    ours = replace(ours, start=replace(ours.start, ticket=Ticket("ours", 1)))
    assert await HandingBack(node.client).hand_back(ours) is HandedOver.TAKEN
    await node.until(pod, lambda one: one.ready)
    runs = await runs_of(node, pod)
    assert starts(runs)[-1].ticket == Ticket("ours", 1)
    assert positions(runs[-2:]) == Counter(range(1, 6)), "it has its story"
    await node.delete(node.newest(pod))


async def test_a_pod_that_was_born_and_is_gone_has_its_story(node: Node) -> None:
    """Its run closes at once, and did nothing."""
    pod = pod_json()
    outcome = PodOutcome("Succeeded", "", 0)
    assert await HandingBack(node.client).hand_back(returned(node, pod, OVER, outcome=outcome)) is HandedOver.TAKEN
    async with asyncio.timeout(PATIENCE):
        await node.newest(pod).result()
    runs = await runs_of(node, pod)
    assert positions(runs) == Counter(range(1, 6))
    described = await describe_execution(node.client, node.workflow_id(pod))
    assert described.workflow_execution_info.status == COMPLETED
    assert not [one for one in node.runtime.named(names.START_CONTAINER) if isinstance(one, StartContainer)]


@pytest.mark.parametrize(
    ("replays", "taken_within"),
    [
        pytest.param(True, timedelta(seconds=1), id="after-a-while"),
        pytest.param(False, timedelta(days=1), id="at-once-if-it-is-known-not-to-replay"),
    ],
)
async def test_a_run_that_does_not_take_it_is_replaced(node: Node, replays: bool, taken_within: timedelta) -> None:
    """Its code does not replay, for example; the history joins both runs."""
    broken = replace(node, behaviour=999)
    other = pod_json()
    await broken.start(other)  # its workflow tasks fail
    handing = HandingBack(node.client, taken_within=taken_within)
    pod = replace(returned(node, other, Observed(started_at=SINCE)), replays=replays)
    async with asyncio.timeout(PATIENCE):
        assert await handing.hand_back(pod) is HandedOver.TAKEN
    await node.until(other, lambda one: one.ready)
    runs = await runs_of(node, other)
    assert [one.ticket.epoch for one in starts(runs)] == [0, 1]
    assert positions(runs) == Counter(range(1, 6))
    told = [line.text for line in build_story(runs).lines]
    assert "Temporal is back: the pod goes on in a new run, because the run before could not take it back" in told
    await node.delete(node.newest(other))


@pytest.mark.parametrize(
    "has_failed_before", [True, False], ids=["the-open-run-fails-too", "the-open-run-is-not-asked"]
)
async def test_a_run_whose_code_fails_is_no_hand_back(
    node: Node, has_failed_before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for it: neither for the open run, nor longer than for the first task of the one that replaces it."""
    monkeypatch.setattr(handing_back, "FAILED_TASKS", 1)  # Temporal takes 15 s for three
    broken, other = replace(node, behaviour=999), pod_json()
    handle = await broken.start(other)  # its workflow tasks fail
    pod = returned(node, other, Observed(started_at=SINCE))
    pod = replace(pod, start=replace(pod.start, behaviour=999), replays=has_failed_before)
    handing = HandingBack(node.client, taken_within=timedelta(hours=1))
    async with asyncio.timeout(PATIENCE):
        while has_failed_before and (await handing.failed_tasks(handle.id) or 0) < 1:  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.1)
        assert await handing.hand_back(pod) is HandedOver.FAILED
    assert [one.ticket.epoch for one in starts(await runs_of(node, other))] == [0, 1]
    await node.newest(other).terminate()


async def test_a_paused_run_is_not_forced(node: Node) -> None:
    """An operator wants nothing to be done; the run gets no signal."""
    pod, handle, observed = await running(node)
    length = (await handle.describe()).history_length
    await node.client.workflow_service.pause_workflow_execution(
        PauseWorkflowExecutionRequest(namespace=node.client.namespace, workflow_id=handle.id, identity="joe")
    )
    handing = HandingBack(node.client, taken_within=timedelta(seconds=1))
    assert await handing.hand_back(returned(node, pod, observed)) is HandedOver.REFUSED
    info = (await describe_execution(node.client, handle.id)).workflow_execution_info
    assert is_open(int(info.status))
    assert info.history_length <= length + 1


BUSY_DETAIL = AnyMessage()
BUSY_DETAIL.Pack(ResourceExhaustedFailure(cause=BUSY))
BUSY_STATUS = GrpcStatus(details=[BUSY_DETAIL]).SerializeToString()


@pytest.mark.parametrize(
    ("error", "calls", "expected"),
    [
        pytest.param(RPCError("no connection", RPCStatusCode.UNAVAILABLE, b""), 1, HandedOver.AWAY, id="away"),
        pytest.param(RPCError("", RPCStatusCode.DEADLINE_EXCEEDED, b""), 1, HandedOver.AWAY, id="unanswered"),
        pytest.param(
            RPCError("slow down", RPCStatusCode.RESOURCE_EXHAUSTED, b""), 4, HandedOver.AWAY, id="throttled-for-long"
        ),
        pytest.param(
            RPCError("closed meanwhile", RPCStatusCode.NOT_FOUND, b""), 4, HandedOver.REFUSED, id="never-found"
        ),
        pytest.param(
            RPCError("busy", RPCStatusCode.RESOURCE_EXHAUSTED, BUSY_STATUS), 4, HandedOver.REFUSED, id="kept-busy"
        ),
        pytest.param(RPCError("too large", RPCStatusCode.INVALID_ARGUMENT, b""), 1, HandedOver.REFUSED, id="refused"),
        pytest.param(
            RPCError("x larger than max", RPCStatusCode.RESOURCE_EXHAUSTED, b""), 4, HandedOver.REFUSED, id="too-large"
        ),
    ],
)
async def test_an_error_ends_the_try(
    node: Node, monkeypatch: pytest.MonkeyPatch, error: RPCError, calls: int, expected: HandedOver
) -> None:
    """After a bounded number of calls; nothing is raised. What concerns one workflow alone does not hold up the others."""
    monkeypatch.setattr(handing_back, "FIRST_PAUSE", timedelta())
    handing, asked = HandingBack(node.client), []

    async def fail(workflow_id: str) -> Any:
        asked.append(workflow_id)
        raise error

    monkeypatch.setattr(handing, "_look", fail)
    assert await handing.hand_back(returned(node, pod_json(), OVER)) is expected
    assert len(asked) == calls


async def test_a_run_that_takes_no_signal_any_more_is_replaced(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Strangers have sent it as many as Temporal allows in one run."""
    pod, _, observed = await running(node)
    handing = HandingBack(node.client)

    async def full(*_: Any) -> None:
        raise RPCError("exceeded workflow execution limit for signal events", RPCStatusCode.INVALID_ARGUMENT, b"")

    monkeypatch.setattr(handing, "_signal", full)
    assert await handing.hand_back(returned(node, pod, observed)) is HandedOver.TAKEN
    assert [one.ticket.epoch for one in starts(await runs_of(node, pod))] == [0, 1]
    await node.delete(node.newest(pod))


async def test_a_run_that_closes_meanwhile_is_followed_by_another_one(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its closing was not seen by the look at it."""
    monkeypatch.setattr(handing_back, "FIRST_PAUSE", timedelta())
    pod, handle, observed = await running(node)
    handing = HandingBack(node.client)
    look = handing._look

    async def look_and_close(workflow_id: str) -> Any:
        seen = await look(workflow_id)
        monkeypatch.undo()
        await handle.terminate("by hand")
        return seen

    monkeypatch.setattr(handing, "_look", look_and_close)
    assert await handing.hand_back(returned(node, pod, observed)) is HandedOver.TAKEN
    assert positions(await runs_of(node, pod)) == Counter(range(1, 6))
    await node.delete(node.newest(pod))


async def test_whether_temporal_is_there(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection alone says nothing."""
    handing = HandingBack(node.client)
    assert await handing.is_there()

    async def fail(*_: Any, **__: Any) -> None:
        raise RPCError("no connection", RPCStatusCode.UNAVAILABLE, b"")

    monkeypatch.setattr(node.client.workflow_service, "describe_namespace", fail)
    assert not await handing.is_there()
