"""Can somebody who only reaches Temporal stop a pod by a message, or have one taken for ours?"""

import asyncio
from pathlib import Path
from typing import Any, Final

import pytest
from temporalio.api.common.v1 import Payload, Payloads, WorkflowExecution
from temporalio.api.enums.v1 import UpdateWorkflowExecutionLifecycleStage
from temporalio.api.failure.v1 import ApplicationFailureInfo, CanceledFailureInfo, Failure
from temporalio.api.query.v1 import WorkflowQuery
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.api.update.v1 import Input, Meta, Request, WaitPolicy
from temporalio.api.workflowservice.v1 import (
    QueryWorkflowRequest,
    RespondActivityTaskCompletedByIdRequest,
    RespondActivityTaskFailedByIdRequest,
    SignalWorkflowExecutionRequest,
    UpdateWorkflowExecutionRequest,
)
from temporalio.client import Client, WorkflowHandle, WorkflowHistory
from temporalio.converter import WorkflowSerializationContext
from temporalio.service import RPCError
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from proto.temporal import names
from proto.temporal.activities.requests import PulledImage
from proto.temporal.node import NodeStatus
from proto.temporal.operator import Explanation
from proto.temporal.signals import PodListed, RuntimeChanged
from tests.replay.lives.archive import RecordedRun
from tests.replay.lives.replaying import replay_all
from tests.workflows.conftest import Node, pod_json
from tests.workflows.runs import history_of, run_of, until_another
from tests.workflows.test_node import Host, host
from worker.temporal.codec import ENCRYPTED, PayloadCipher, data_converter
from worker.temporal.decoded_history import decode_history
from worker.temporal.keys import KeyFile
from worker.temporal.temporal_client import activity_of
from workflows import temporal_driver
from workflows.decide.versions import CURRENT, OLDEST
from workflows.pod import PodWorkflow

__all__ = ["host"]  # a fixture

Handle = WorkflowHandle[Any, Any]
COMPLETED: Final = UpdateWorkflowExecutionLifecycleStage.UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_COMPLETED
JSON: Final = {"encoding": b"json/plain"}
UNKNOWN_KEY: Final = {"encoding": ENCRYPTED, "k": b"00000000", "w": b"pod/other"}

FORMS: Final[dict[str, tuple[Payload, ...]]] = {
    "no-value": (),
    "two-values": (Payload(metadata=JSON, data=b"{}"), Payload(metadata=JSON, data=b"{}")),
    "not-encrypted": (Payload(metadata=JSON, data=b'{"source":"stranger"}'),),
    "no-encoding": (Payload(data=b"x"),),
    "foreign-encoding": (Payload(metadata={"encoding": b"\xff\xfe"}, data=b"x"),),
    "a-forged-refusal": (Payload(metadata={"encoding": b"binary/refused"}, data=b"x"),),
    "unknown-key": (Payload(metadata=UNKNOWN_KEY, data=b"x" * 40),),
    "odd-metadata": (Payload(metadata={"encoding": ENCRYPTED, "k": b"\xff" * 1000, "w": b"\xff"}, data=b""),),
    "two-megabytes": (Payload(metadata=JSON, data=b" " * 1_900_000),),
}


async def send_signal(client: Client, workflow_id: str, name: str, payloads: tuple[Payload, ...]) -> None:
    """Signal as somebody who has neither our code nor our key."""
    await client.workflow_service.signal_workflow_execution(
        SignalWorkflowExecutionRequest(
            namespace=client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=workflow_id),
            signal_name=name,
            input=Payloads(payloads=payloads) if payloads else None,
        )
    )


async def with_our_key(client: Client, workflow_id: str, value: object, activity_id: str = "") -> tuple[Payload, ...]:
    """Encrypt a value for a workflow, or for an activity, as our own client does."""
    if activity_id:
        converter = activity_of(client, workflow_id, activity_id)._data_converter_override
        assert converter is not None
        return tuple(await converter.encode([value]))
    bound = client.data_converter.with_context(WorkflowSerializationContext(client.namespace, workflow_id))
    return tuple(await bound.encode([value]))


async def card(handle: Handle) -> str:
    """Read the card as the UI does."""
    answer = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
    return str(answer.current_details)


async def all_forms(client: Client, handle: Handle) -> list[tuple[str, tuple[Payload, ...]]]:
    """Return messages of every form, each with its name."""
    every = [(names.RUNTIME_CHANGED, payloads) for payloads in FORMS.values()]
    every.append((names.RUNTIME_CHANGED, await with_our_key(client, handle.id, "a value of another type")))
    copied = await with_our_key(client, "pod/other/default/web/u", RuntimeChanged("event"))
    every.append((names.RUNTIME_CHANGED, copied))
    every.append((names.RUNTIME_CHANGED, await with_our_key(client, handle.id, PodListed("file"))))
    every.append((names.RUNTIME_CHANGED, await with_our_key(client, handle.id, RuntimeChanged("event"), "image/1")))
    every.append(("Anything" * 100, FORMS["not-encrypted"]))
    return every


async def replays(node: Node | Host, history: WorkflowHistory, key_file: Path) -> None:
    """Replay a run as the worker does, and decrypted; the commands and their content are the same."""
    replayer = Replayer(
        workflows=[PodWorkflow],
        workflow_runner=UnsandboxedWorkflowRunner(),
        namespace=node.client.namespace,
        data_converter=data_converter(KeyFile(key_file)),
    )
    await replayer.replay_workflow(history)
    opened = decode_history(history, PayloadCipher(KeyFile(key_file)), node.client.namespace)
    assert [found async for _, found in replay_all([RecordedRun(0, 1, opened)])] == [""]


@pytest.mark.parametrize("behaviour", [OLDEST, CURRENT])
async def test_a_malformed_signal_is_dropped_and_the_pod_goes_on(node: Node, key_file: Path, *, behaviour: int) -> None:
    """Whatever its form; the card counts it, the next proper signal is heard, and both kinds of replay find the same."""
    node.behaviour = behaviour
    pod = pod_json()
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    messages = await all_forms(node.client, handle)
    for name, payloads in messages:
        await send_signal(node.client, handle.id, name, payloads)
    await node.exits(handle, "web", 1)
    await node.until(pod, lambda one: one.ready and one.restarts == 1)
    told = await card(handle)
    assert f"**{len(messages)} malformed signals dropped**, the last `AnythingAny" in told
    assert "it has an unknown name" in told
    await node.delete(handle)
    await replays(node, await handle.fetch_history(), key_file)


async def test_the_nodes_workflow_goes_on(host: Host) -> None:
    """The same for the workflow of the node's images."""
    handle = await host.configure()
    await host.images.until(lambda: host.images.watches)
    messages = await all_forms(host.client, handle)
    for _, payloads in messages:
        await send_signal(host.client, handle.id, names.NODE_CONFIGURED, payloads)
    told = await card(handle)
    assert f"**{len(messages)} malformed signals dropped**, the last `NodeConfigured`" in told
    assert await handle.query(names.NODE_STATUS, result_type=NodeStatus)


async def test_a_flood_of_malformed_signals_ends_in_a_new_run(
    node: Node, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Temporal refuses signals beyond 10,000 in a run, so those that are dropped count, too; the count is carried on."""
    monkeypatch.setattr(temporal_driver, "SIGNALS_PER_RUN", 6)
    pod = pod_json()
    handle = node.newest(pod)
    await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    first = await run_of(handle)
    for _ in range(6):
        await send_signal(node.client, handle.id, names.RUNTIME_CHANGED, ())
    second = await until_another(node.client, handle.id, first)
    assert "malformed signals dropped**, the last `RuntimeChanged`" in await card(handle)
    await node.delete(handle)
    assert len(node.runtime.named(names.START_CONTAINER)) == 1
    for run_id in (first, second):
        await replays(node, await history_of(node.client, handle.id, run_id), key_file)


@pytest.mark.parametrize("form", FORMS)
async def test_a_malformed_update_is_refused(node: Node, form: str) -> None:
    """Whatever its form and name: the sender is told, the history has none of it, and the pod goes on."""
    pod = pod_json()
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    for name in (names.EVICT_POD, "Anything"):
        answer = await node.client.workflow_service.update_workflow_execution(
            UpdateWorkflowExecutionRequest(
                namespace=node.client.namespace,
                workflow_execution=WorkflowExecution(workflow_id=handle.id),
                wait_policy=WaitPolicy(lifecycle_stage=COMPLETED),
                request=Request(meta=Meta(update_id=name), input=Input(name=name, args=Payloads(payloads=FORMS[form]))),
            )
        )
        assert answer.outcome.failure.application_failure_info.type == "Malformed"
    await node.exits(handle, "web", 1)
    await node.until(pod, lambda one: one.ready and one.restarts == 1)
    assert "**2 malformed updates refused**" in await card(handle)
    await node.delete(handle)


@pytest.mark.parametrize("form", FORMS)
async def test_a_malformed_query_is_answered_with_an_error(node: Node, form: str) -> None:
    """It changes nothing, and a proper query is answered afterwards."""
    pod = pod_json()
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    if FORMS[form]:
        with pytest.raises(RPCError):
            await node.client.workflow_service.query_workflow(
                QueryWorkflowRequest(
                    namespace=node.client.namespace,
                    execution=WorkflowExecution(workflow_id=handle.id),
                    query=WorkflowQuery(query_type=names.EXPLAIN, query_args=Payloads(payloads=FORMS[form])),
                )
            )
    assert (await handle.query(names.EXPLAIN, result_type=Explanation)).lifecycle == "sync"
    await node.delete(handle)


def unreadable_failure() -> Failure:
    """Build a failure of an activity with details and a message that nobody of ours has written."""
    details = Payloads(payloads=[Payload(metadata=UNKNOWN_KEY, data=b"x" * 40)])
    return Failure(
        message="gone",
        encoded_attributes=Payload(metadata=JSON, data=b"[]"),
        application_failure_info=ApplicationFailureInfo(type="Gone", non_retryable=True, details=details),
    )


async def complete(client: Client, workflow_id: str, activity_id: str, payloads: tuple[Payload, ...]) -> None:
    """Answer an activity in our worker's place."""
    await client.workflow_service.respond_activity_task_completed_by_id(
        RespondActivityTaskCompletedByIdRequest(
            namespace=client.namespace,
            workflow_id=workflow_id,
            activity_id=activity_id,
            result=Payloads(payloads=payloads) if payloads else None,
        )
    )


async def fail(client: Client, workflow_id: str, activity_id: str, failure: Failure) -> None:
    """Fail an activity in our worker's place."""
    await client.workflow_service.respond_activity_task_failed_by_id(
        RespondActivityTaskFailedByIdRequest(
            namespace=client.namespace, workflow_id=workflow_id, activity_id=activity_id, failure=failure
        )
    )


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        pytest.param("no-value", "AnswerRefused", id="no-value"),
        pytest.param("not-encrypted", "AnswerRefused", id="not-encrypted"),
        pytest.param("unknown-key", "AnswerRefused", id="unknown-key"),
        pytest.param("another-type", "AnswerRefused", id="another-type"),
        pytest.param("no-type", "AnswerRefused", id="no-type"),
        pytest.param("another-activity", "AnswerRefused", id="another-activity"),
        pytest.param("no-activity", "AnswerRefused", id="no-activity"),
        pytest.param("", "UnreadableFailure", id="a-failure"),
        pytest.param("", "CancelledError", id="a-cancellation-that-the-workflow-has-not-asked-for"),
    ],
)
async def test_a_forged_answer_of_an_activity_is_a_failure_of_the_action(
    node: Node, key_file: Path, form: str, reason: str
) -> None:
    """The workflow task does not fail: the action did, is told with its reason, and is done again."""
    pod = pod_json()
    node.runtime.held[names.PULL_IMAGE] = held = asyncio.Event()
    handle = await node.start(pod)
    await node.called(names.PULL_IMAGE)
    (pull,) = (
        one.activity_id
        for one in (await handle.describe()).raw_description.pending_activities
        if one.activity_type.name == names.PULL_IMAGE
    )
    if form == "another-type":
        copied = await with_our_key(node.client, handle.id, PodListed("file"), pull)
        await complete(node.client, handle.id, pull, copied)
    elif form == "no-type":
        copied = await with_our_key(node.client, handle.id, {"image_ref": "x"}, pull)
        await complete(node.client, handle.id, pull, copied)
    elif form == "another-activity":
        copied = await with_our_key(node.client, handle.id, PulledImage("x"), "image/other")
        await complete(node.client, handle.id, pull, copied)
    elif form == "no-activity":
        await complete(node.client, handle.id, pull, await with_our_key(node.client, handle.id, PulledImage("x")))
    elif form:
        await complete(node.client, handle.id, pull, FORMS[form])
    elif reason == "CancelledError":
        await fail(node.client, handle.id, pull, Failure(canceled_failure_info=CanceledFailureInfo()))
    else:
        await fail(node.client, handle.id, pull, unreadable_failure())
    await node.until(pod, lambda one: reason in str(one.status))
    held.set()
    await node.until(pod, lambda one: one.ready)
    await node.delete(handle)
    await replays(node, await handle.fetch_history(), key_file)
