"""The cost of 110 empty workflows on the embedded Temporal: the minimum for any agent with a workflow for each pod.

Run as `python -m tests.bench.empty_workflows [rounds]`. A plain pod's start takes three workflow tasks and two activities; here
are as many, without payloads, search attributes or encryption, and the activities do nothing.
"""

import asyncio
import sys
import tempfile
import time
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Final

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from proto.temporal.names import NAMESPACE
from tests.bench.peers.peer import Process
from tests.bench.usage import cpu_seconds
from tests.free_ports import free_ports
from worker.standalone.temporal_server import TemporalServer
from worker.temporal.temporal_client import way_to

WORKFLOWS: Final = 110
QUEUE: Final = "empty"
LOOKS_APART: Final = 0.3
SETTLE_SECONDS: Final = 1.5


@activity.defn
async def nothing() -> None:
    """Do nothing."""


@workflow.defn
class Empty:
    """Some activities that do nothing, one after the other; then it stays open, as a running pod's workflow does."""

    @workflow.run
    async def run(self, activities: int) -> None:
        """Run this many activities."""
        for _ in range(activities):
            await workflow.execute_activity(nothing, start_to_close_timeout=timedelta(minutes=1))
        await workflow.wait_condition(lambda: False)


async def start_all(client: Client, activities: int) -> None:
    """Start them at once and wait until the last ones are done: querying every one would cost CPU, too."""
    begun = [
        client.start_workflow(Empty.run, activities, id=f"empty-{uuid.uuid4()}", task_queue=QUEUE)
        for _ in range(WORKFLOWS)
    ]
    last = (await asyncio.gather(*begun))[-3:]
    while any([(await one.describe()).history_length < 4 + 6 * activities for one in last]):  # noqa: ASYNC110 - another process knows
        await asyncio.sleep(LOOKS_APART)
    await asyncio.sleep(SETTLE_SECONDS)  # the others, and Temporal's deferred work


async def measure(server: TemporalServer, process: Process, rounds: int) -> None:
    """Print the cost of a workflow for Temporal, and for the client and worker in this process."""
    client = await Client.connect(**way_to(server.address), namespace=NAMESPACE)
    runner = UnsandboxedWorkflowRunner()  # as our own worker does
    async with Worker(client, task_queue=QUEUE, workflows=[Empty], activities=[nothing], workflow_runner=runner):
        for _ in range(rounds):
            for activities in (0, 2):
                before, ours = cpu_seconds([process]), time.process_time()
                await start_all(client, activities)
                after = cpu_seconds([process])
                temporal = (after[process.name] - before[process.name]) / WORKFLOWS
                worker = (time.process_time() - ours) / WORKFLOWS
                print(
                    f"{activities} activities: Temporal {temporal * 1000:.1f} ms, "
                    f"client and worker {worker * 1000:.1f} ms of CPU a workflow",
                    flush=True,
                )


def main() -> None:
    """Start a Temporal, measure, and stop it."""
    rounds = int(sys.argv[1]) if sys.argv[1:] else 3
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        with TemporalServer(root / "root", root / "run", free_ports(1)[0]) as server:
            running = server.process.running()
            assert running is not None
            asyncio.run(measure(server, Process("temporal", running.pid), rounds))


if __name__ == "__main__":
    main()
