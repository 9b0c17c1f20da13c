"""A small poller and a small worker for `test_tracing`, each a process, because a process has one trace provider.

`python -m tests.worker.telemetry.traced_life poller|worker KEY_FILE TEMPORAL CRI [COLLECTOR RATE]`. The worker works until its
stdin closes; the poller starts one workflow, waits for its end and prints what its process had to import.
"""

import asyncio
import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from activities.clients.observe import CallObserver
from activities.clients.runtime import RuntimeClient
from activities.clients.start_limit import StartLimit
from worker.telemetry.tracing import open_tracing
from worker.telemetry.tracing_settings import TracingSettings
from worker.temporal.temporal_client import TemporalSettings, connect, prepare

QUEUE = "traced"
WORKFLOW_ID = "pod/node-1/default/hello/0123"
measured: list[str] = []


def measure(call: str, seconds: float, *, failed: bool) -> None:
    """Record a call."""
    assert seconds > 0
    measured.append(f"{call}{' failed' if failed else ''}")


class Asking:
    """An activity that makes one CRI call."""

    def __init__(self, endpoint: str) -> None:
        self.runtime = RuntimeClient(endpoint, StartLimit(1), interceptors=(CallObserver(measure),))

    @activity.defn(name="RunPodSandbox")
    async def run_pod_sandbox(self) -> str:
        """Request the runtime's version."""
        return str((await self.runtime.version()).version)


@workflow.defn(name="PodWorkflow")
class TracedLife:
    """A workflow with one activity, which ends on a signal."""

    def __init__(self) -> None:
        self.told = False

    @workflow.run
    async def run(self, _: str) -> str:
        """Call it twice: before and after the signal."""
        for turn in range(2):
            version: str = await workflow.execute_activity(
                "RunPodSandbox", activity_id=f"sandbox/{turn}", start_to_close_timeout=timedelta(seconds=20)
            )
            await workflow.wait_condition(lambda: self.told)
        return version

    @workflow.signal(name="PodListed")
    def listed(self) -> None:
        """Receive the signal."""

    @workflow.signal(name="RuntimeChanged")
    def changed(self) -> None:
        """Receive the signal."""
        self.told = True


async def work(client: Client, cri: str) -> None:
    """Work until stdin closes."""
    activities: list[Any] = [Asking(cri).run_pod_sandbox]
    runner = UnsandboxedWorkflowRunner()
    async with Worker(client, task_queue=QUEUE, workflows=[TracedLife], activities=activities, workflow_runner=runner):
        print("working", flush=True)
        await asyncio.to_thread(sys.stdin.read)
    print(measured, flush=True)


async def tell(client: Client) -> None:
    """Start a workflow and signal it."""
    handle = await client.start_workflow(
        TracedLife.run, "hello", id=WORKFLOW_ID, task_queue=QUEUE, start_signal="PodListed"
    )
    await handle.signal(TracedLife.changed)
    await handle.result()


async def main(role: str, key_file: str, temporal: str, cri: str, collector: str = "", rate: str = "0") -> None:
    """Play one role."""
    settings = TracingSettings(f"tempolet-{role}", "node-1", collector or None, int(rate))
    tracing = open_tracing(settings, {})
    reach = TemporalSettings(key_file=Path(key_file), address=temporal, environment={})
    client = await connect(reach, plugins=tracing.plugins)
    await prepare(client, reach)
    await (work(client, cri) if role == "worker" else tell(client))
    await tracing.close()
    heavy = sorted(name for name in sys.modules if name in {"opentelemetry.sdk", "opentelemetry.exporter"})
    print(f"imported {heavy}", flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
    os._exit(0)  # the SDK's threads may still call into Python, which aborts an interpreter that is shutting down
