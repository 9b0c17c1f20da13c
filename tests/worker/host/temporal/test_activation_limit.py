"""Does a pod go on whose workflow takes longer for one activation than the SDK allows?"""

import time
import uuid

from temporalio.client import Client
from temporalio.worker import (
    HandleSignalInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

from activities.execution.attempts import AttachingAttempts
from proto.temporal import names
from proto.temporal.signals import RuntimeChanged
from tests.workflows.conftest import Node, client, pod_json
from tests.workflows.model_runtime import ModelRuntime
from worker.host.pod_cache import publishing
from worker.processes.sdk_worker import node_worker

__all__ = ["client"]  # a fixture
A_SIGNAL_TAKES = 0.6
SIGNALS = 5


class OnALoadedMachine(WorkflowInboundInterceptor):
    """Takes its time for each signal; in steps, because the SDK's interruption strikes between two of Python's instructions."""

    async def handle_signal(self, input: HandleSignalInput) -> None:  # noqa: A002 - the SDK's name
        """Wait, as a thread does that gets little of the processor."""
        until = time.monotonic() + A_SIGNAL_TAKES
        while input.signal == names.RUNTIME_CHANGED and time.monotonic() < until:
            time.sleep(0.001)  # noqa: ASYNC251 - in a workflow's own thread
        await super().handle_signal(input)


class LoadedMachine(Interceptor):
    """Makes every run slow."""

    def workflow_interceptor_class(self, input: WorkflowInterceptorClassInput) -> type[WorkflowInboundInterceptor]:  # noqa: A002, ARG002 - the SDK's names
        """Return the class for a workflow's runs."""
        return OnALoadedMachine


async def test_a_slow_activation_is_not_broken_off(client: Client) -> None:
    """The pod starts, although its first activation takes longer than the SDK's 2 s."""
    node = Node(client, f"n{uuid.uuid4().hex[:8]}", ModelRuntime())
    pod = pod_json()
    handle = await node.start(pod)
    for _ in range(SIGNALS):
        await handle.signal(names.RUNTIME_CHANGED, RuntimeChanged("event"))
    publish = publishing(node.publish, node.running.received, node.keep, node.end)
    around = [LoadedMachine(), publish, AttachingAttempts(node.running, node.present)]
    async with node_worker(client, node.name, node.runtime.activities(), around):
        await node.until(pod, lambda one: one.ready)
        history = await handle.fetch_history()
        await node.delete(handle)
    assert not [one for one in history.events if one.HasField("workflow_task_failed_event_attributes")]
