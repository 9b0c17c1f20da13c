"""In a whole workflow on a real Temporal, are all payloads encrypted, and do plain signals do no harm?"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message
from temporalio import activity, workflow
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionRequest, SignalWorkflowExecutionRequest
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle, WorkflowHistory, WorkflowUpdateFailedError
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.worker import Replayer, Worker

from worker.payloads.refused import PayloadRefused
from worker.temporal.codec import ENCRYPTED, PayloadCipher, data_converter, plain_data_converter
from worker.temporal.decoded_history import decode_history, is_encrypted, payloads_in
from worker.temporal.keys import KeyFile, create_key_file
from worker.temporal.temporal_client import TemporalSettings, activity_of, connect, prepare

CANARY = "xyzzy-canary-9f4e"


@activity.defn(name="Leak")
async def leak(value: str) -> str:
    """Take the canary in, heartbeat it, fail with it once, then answer with it."""
    activity.heartbeat(value)
    if activity.info().attempt == 1:
        raise ApplicationError(f"cannot pull {value}", value, type="ErrImagePull")
    assert list(activity.info().heartbeat_details) == [value]
    return value


@activity.defn(name="LeakForever")
async def leak_forever(value: str) -> None:
    """Fail for good, with the canary in message, details and cause."""
    raise ApplicationError(f"gave up on {value}", value, type="ErrImagePull", non_retryable=True) from ValueError(value)


class Outside:
    """An activity that someone else answers."""

    def __init__(self) -> None:
        self.waiting: asyncio.Queue[str] = asyncio.Queue()

    @activity.defn(name="WaitOutside")
    async def wait_outside(self) -> str:
        """Say that an answer is waited for."""
        self.waiting.put_nowait(activity.info().activity_id)
        activity.raise_complete_async()


@workflow.defn(name="Leaky", sandboxed=False)
class Leaky:
    """A workflow that puts the canary into everything that can hold a payload."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    @workflow.run
    async def run(self, value: str, runs: int) -> str:
        """Use each way once, continue as new, use them again, and fail."""
        workflow.set_current_details(f"details {value}")
        workflow.upsert_memo({"later": value})
        options: dict[str, Any] = {"start_to_close_timeout": timedelta(seconds=30)}
        retry = RetryPolicy(initial_interval=timedelta(milliseconds=10))
        leaking = workflow.execute_activity(
            leak, value, activity_id="leak", summary=value, retry_policy=retry, **options
        )
        assert await leaking == value
        assert await workflow.execute_local_activity(answer_locally, value, **options) == value
        with pytest.raises(ActivityError) as failed:
            await workflow.execute_activity(leak_forever, value, activity_id="leak-forever", **options)
        assert isinstance(failed.value.cause, ApplicationError)
        assert failed.value.cause.message == f"gave up on {value}"
        assert list(failed.value.cause.details) == [value]
        await workflow.execute_activity_method(Outside.wait_outside, activity_id="outside", **options)
        await workflow.sleep(timedelta(milliseconds=1), summary=f"timer {value}")
        await workflow.wait_condition(lambda: value in self.seen)
        if runs:
            workflow.continue_as_new(args=[value, runs - 1], memo={"again": value})
        raise ApplicationError(f"failed with {value}", value)

    @workflow.signal(name="Tell")
    def tell(self, value: str) -> None:
        """Hear the canary."""
        self.seen.append(value)

    @workflow.query(name="Ask")
    def ask(self, value: str) -> str:
        """Answer with the canary."""
        return f"{value} {self.seen}"

    @workflow.update(name="Change")
    def change(self, value: str) -> str:
        """Take and answer the canary."""
        return f"changed {value}"

    @change.validator
    def validate(self, value: str) -> None:
        """Refuse with the canary."""
        if value.startswith("bad"):
            raise ApplicationError(f"refused {value}")


@activity.defn(name="AnswerLocally")
async def answer_locally(value: str) -> str:
    """Answer from a local activity."""
    return value


@asynccontextmanager
async def leaky_worker(settings: TemporalSettings) -> AsyncIterator[tuple[Client, Outside]]:
    """Run a worker of the leaky workflow and give its client."""
    client = await connect(settings)
    await prepare(client, settings)
    outside = Outside()
    activities: list[Callable[..., Any]] = [leak, leak_forever, answer_locally, outside.wait_outside]
    async with Worker(client, task_queue="leaky", workflows=[Leaky], activities=activities):
        yield client, outside


async def describe(client: Client, workflow_id: str) -> Message:
    """Read Temporal's raw description of a workflow."""
    return await client.workflow_service.describe_workflow_execution(
        DescribeWorkflowExecutionRequest(
            namespace=client.namespace, execution=WorkflowExecution(workflow_id=workflow_id)
        )
    )


async def start_leaky(client: Client, workflow_id: str, runs: int = 0) -> WorkflowHandle[Leaky, str]:
    """Start the leaky workflow with the canary in all that a start can carry."""
    return await client.start_workflow(
        Leaky.run,
        args=[CANARY, runs],
        id=workflow_id,
        task_queue="leaky",
        memo={"note": CANARY},
        static_summary=CANARY,
        static_details=CANARY,
        start_signal="Tell",
        start_signal_args=["started"],
    )


async def live_one_run(client: Client, outside: Outside, handle: WorkflowHandle[Leaky, str]) -> None:
    """Put the canary into one run from outside, in every way, and read it back in every way."""
    pending = activity_of(client, handle.id, await outside.waiting.get())
    await pending.heartbeat(CANARY)
    before = await describe(client, handle.id)
    assert ENCRYPTED in before.SerializeToString().partition(b"WaitOutside")[2]  # the heartbeat's details are there
    assert CANARY.encode() not in before.SerializeToString()
    await pending.complete(CANARY)
    assert CANARY in await handle.query(Leaky.ask, CANARY)
    assert await handle.execute_update(Leaky.change, CANARY) == f"changed {CANARY}"
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await handle.execute_update(Leaky.change, f"bad {CANARY}")
    assert CANARY in str(refused.value.cause)
    described = await handle.describe()
    assert await described.memo_value("later", type_hint=str) == CANARY
    assert CANARY.encode() not in (await describe(client, handle.id)).SerializeToString()
    metadata = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
    assert metadata.current_details == f"details {CANARY}"
    await handle.signal(Leaky.tell, CANARY)


async def two_lives(settings: TemporalSettings, workflow_id: str) -> list[WorkflowHistory]:
    """Live two runs to the failure at the end and give their histories as Temporal has them."""
    async with leaky_worker(settings) as (client, outside):
        handle = await start_leaky(client, workflow_id, runs=1)
        assert await (await handle.describe()).static_summary() == CANARY  # Temporal gives it to the first run only
        await live_one_run(client, outside, handle)
        await live_one_run(client, outside, handle)
        with pytest.raises(WorkflowFailureError) as failed:
            await handle.result()
        assert isinstance(failed.value.cause, ApplicationError)
        assert failed.value.cause.message == f"failed with {CANARY}"
        runs = (handle.first_execution_run_id, None)
        return [await client.get_workflow_handle(workflow_id, run_id=run).fetch_history() for run in runs]


async def test_nothing_of_a_life_is_readable_in_temporal(settings: TemporalSettings) -> None:
    """Every way a payload can take, on both sides of a continue-as-new: the canary is nowhere clear, and all opens."""
    workflow_id = "pod/node-1/default/leaky/1"
    histories = await two_lives(settings, workflow_id)
    cipher = PayloadCipher(KeyFile(settings.key_file))
    for history in histories:
        assert is_encrypted(history)
        clear = [event.event_id for event in history.events if CANARY.encode() in event.SerializeToString()]
        assert clear == []
        bound = {p.metadata["w"].decode() for e in history.events for p in payloads_in(e) if "w" in p.metadata}
        assert bound == {workflow_id}
        decoded = decode_history(history, cipher, "tempolet")
        assert not is_encrypted(decoded)
        assert CANARY in str(decoded.events)
        await Replayer(workflows=[Leaky], data_converter=plain_data_converter()).replay_workflow(decoded)
        keyed = data_converter(KeyFile(settings.key_file))
        replayer = Replayer(workflows=[Leaky], data_converter=keyed, namespace="tempolet")
        await replayer.replay_workflow(history)


async def test_a_clear_signal_is_dropped_and_stops_no_pod(settings: TemporalSettings) -> None:
    """What the bare temporal command sends is refused; the workflow continues with our signals."""
    workflow_id = "pod/node-1/default/leaky/2"
    async with leaky_worker(settings) as (client, _):
        handle = await start_leaky(client, workflow_id)
        request = SignalWorkflowExecutionRequest(
            namespace=client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=workflow_id),
            signal_name="Tell",
        )
        request.input.payloads.add(metadata={"encoding": b"json/plain"}, data=b'"in the clear"')
        await client.workflow_service.signal_workflow_execution(request)
        await handle.signal(Leaky.tell, "encrypted")
        answer = await handle.query(Leaky.ask, "what did you hear?")
        assert "encrypted" in answer
        assert "in the clear" not in answer
        await handle.terminate()


async def test_a_client_with_another_key_is_told_which_it_lacks(settings: TemporalSettings, tmp_path: Path) -> None:
    """The error names the key that its file does not have."""
    async with leaky_worker(settings) as (client, _):
        handle = await start_leaky(client, "pod/node-1/default/leaky/3")
        other_file = tmp_path / "other"
        create_key_file(other_file)
        other = await connect(TemporalSettings(key_file=other_file, address=settings.address, environment={}))
        described = await other.get_workflow_handle(handle.id).describe()
        with pytest.raises(PayloadRefused, match=KeyFile(settings.key_file).newest.key_id):
            await described.memo_value("note", type_hint=str)
        await handle.terminate()
