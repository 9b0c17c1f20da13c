"""A stand-in for PodWorkflow that writes down what the poller tells it, and a node around a real poller.

The stand-in goes when it is asked to, at once or, while it is held, when the test lets it go; listed again meanwhile it
begins anew, as the real one does. The test is the worker's activities: it writes the snapshots.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Self

from temporalio import workflow
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from proto.temporal import names
from proto.temporal.names import PodWorkflowId
from proto.temporal.pod import PodStart
from proto.temporal.signals import DeletionRequested, ObjectsChanged, PodListed, RuntimeChanged
from tests.free_ports import free_port
from tests.patience import PATIENCE
from tests.worker.poller.runtime.fake_runtime import FakeRuntime
from worker.daemon.config import NodeConfig
from worker.daemon.service import Service
from worker.delivery.lead import TemporalLeads
from worker.delivery.server import LeadServer, socket_path
from worker.payloads.receiving import ReceivingConverter
from worker.processes.poller import run_poller

MANIFEST = """
apiVersion: v1
kind: Pod
metadata:
  name: {name}
spec:
  containers:
  - name: c
    image: busybox:{tag}
"""


@workflow.defn(name=names.POD_WORKFLOW)
class StandIn:
    """A pod that only listens."""

    @workflow.init
    def __init__(self, start: PodStart) -> None:
        self.start = start
        self.heard: list[str] = []
        self.numbers: list[int] = []
        self.going = self.held = self.listed_again = False

    @workflow.run
    async def run(self, start: PodStart) -> str:
        """Live until asked to go and not held."""
        await workflow.wait_condition(lambda: self.going and not self.held)
        await workflow.wait_condition(workflow.all_handlers_finished)
        if self.listed_again:
            workflow.continue_as_new(start)
        return " ".join(self.heard)

    @workflow.signal(name=names.POD_LISTED)
    def listed(self, signal: PodListed) -> None:
        """Write it down, and what it says beyond the start."""
        self.numbers.append(signal.sequence)
        edit = signal.pod if signal.in_place and signal.pod != self.start.pod else None
        self.heard.append(f"listed with {edit['spec']['containers'][0]['image']}" if edit else "listed")
        self.listed_again = self.going

    @workflow.signal(name=names.DELETION_REQUESTED)
    def deletion_requested(self, signal: DeletionRequested) -> None:
        """Write it down."""
        self.numbers.append(signal.sequence)
        self.heard.append(signal.reason)
        self.going, self.listed_again = True, False

    @workflow.signal(name=names.RUNTIME_CHANGED)
    def runtime_changed(self, signal: RuntimeChanged) -> None:
        """Write it down."""
        self.heard.append(":".join([signal.source, *signal.exited, *(["lost"] if signal.sandbox_lost else [])]))

    @workflow.signal(name=names.OBJECTS_CHANGED)
    def objects_changed(self, signal: ObjectsChanged) -> None:
        """Write it down."""
        self.heard.append(" ".join([signal.source, *sorted(signal.versions)]))

    @workflow.signal(name="Hold")
    def hold(self, held: bool) -> None:
        """Take long to go, as a pod with a long grace does."""
        self.held = held

    @workflow.update(name="Until")
    async def until(self, count: int) -> list[str]:
        """Answer once so much was heard."""
        await workflow.wait_condition(lambda: len(self.heard) >= count)
        return self.heard

    @workflow.query(name="Heard")
    def told(self) -> list[str]:
        """Answer what was heard so far."""
        return self.heard

    @workflow.query(name="Numbers")
    def numbered(self) -> list[int]:
        """Answer the sequence numbers of what the source said."""
        return self.numbers

    @workflow.query(name="Start")
    def started_with(self) -> PodStart:
        """Answer the input."""
        return self.start


class Node:
    """One node: a manifest folder, a fake runtime, a poller that runs or not."""

    def __init__(self, client: Client, root: Path, runtime: FakeRuntime, name: str) -> None:
        self.client = client
        self.name = name
        self.root = root
        self.manifests = root / "manifests"
        self.manifests.mkdir()
        self.runtime = runtime
        self.sync_frequency = timedelta(minutes=1)

    def write(self, file: str, *, name: str = "web", tag: str = "1") -> Path:
        """Write a manifest."""
        path = self.manifests / file
        path.write_text(MANIFEST.format(name=name, tag=tag))
        return path

    def config(self) -> NodeConfig:
        """Configure its poller."""
        return NodeConfig(
            node_name=self.name,
            root_dir=self.root,
            static_pod_path=self.manifests,
            container_runtime_endpoint=self.runtime.endpoint,
            sync_frequency=self.sync_frequency,
            node_ips=("192.0.2.7",),
        )

    @asynccontextmanager
    async def poller(self, client: Client | None = None) -> AsyncIterator[Service]:
        """Run a poller around the block; leaving it is as a kill -9 for what the poller had not said yet."""
        service = Service(lambda: "", environment={})
        task = asyncio.create_task(run_poller(self.config(), client or self.client, service))
        try:
            yield service
            assert not task.done(), task.exception()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @asynccontextmanager
    async def worker_that_leads_nothing(self) -> AsyncIterator[None]:
        """Answer as a worker that knows what Temporal has: without one, nothing counts as orphaned."""
        path = socket_path(self.config().state_dir)
        path.parent.mkdir(parents=True, exist_ok=True)
        async with LeadServer(TemporalLeads(), ReceivingConverter(), {}).serving(path):
            yield

    async def open(self) -> dict[str, str]:
        """List the open pods by visibility: workflow id by `name tag`."""
        found = {}
        query = f"WorkflowType = '{names.POD_WORKFLOW}' AND PodNode = '{self.name}' AND ExecutionStatus = 'Running'"
        async for one in self.client.list_workflows(query):
            if not one.id.startswith(f"pod/{self.name}/"):
                continue  # of a test that plays a stranger
            start = await self.client.get_workflow_handle(one.id).query("Start", result_type=PodStart)
            image = start.pod["spec"]["containers"][0]["image"]
            found[f"{PodWorkflowId.parse(one.id).name} {image}"] = one.id
        return found

    async def handle(self, name: str = "web", tag: str = "1") -> "WorkflowHandle[StandIn, str]":
        """Wait until this pod's workflow is open."""
        wanted = f"{name}-{self.name} busybox:{tag}"
        found: dict[str, str] = {}

        async def is_open() -> bool:
            found.update(await self.open())
            return wanted in found

        await eventually(is_open)
        return self.client.get_workflow_handle_for(StandIn.run, found[wanted])

    async def only(self, *pods: str) -> None:
        """Wait until exactly these pods (`name tag`) are open."""
        wanted = {f"{pod.split()[0]}-{self.name} busybox:{pod.split()[1]}" for pod in pods}

        async def are() -> bool:
            return set(await self.open()) == wanted

        await eventually(are)


class Line:
    """A line to Temporal that can be cut: connections break, and new ones are refused until it is mended.

    Its port is of the test's own: one of the kernel's choice may be somebody else's before the line is mended.
    """

    def __init__(self, far: str) -> None:
        self._far = far.rsplit(":", 1)
        self._server: asyncio.Server | None = None
        self._ends: set[asyncio.StreamWriter] = set()
        self._pumps: set[asyncio.Task[None]] = set()
        self._port = free_port()
        self._whole: object | None = None
        """Another one after each mend; None while the line is cut."""

    @property
    def address(self) -> str:
        """Where it is reached."""
        return f"127.0.0.1:{self._port}"

    async def mend(self) -> None:
        """Take connections (again)."""
        self._whole = object()
        self._server = await asyncio.start_server(self._connect, "127.0.0.1", self._port)

    async def cut(self) -> None:
        """Break every connection and take none."""
        self._whole = None
        if self._server:
            self._server.close()
        for end in self._ends:
            end.transport.abort()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    async def __aenter__(self) -> Self:
        await self.mend()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.cut()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        whole = self._whole
        far_reader, far_writer = await asyncio.open_connection(*self._far)
        if whole is None or whole is not self._whole:  # it was cut before the connection was there to be broken
            writer.transport.abort()
            far_writer.transport.abort()
            return
        self._ends |= {writer, far_writer}
        for source, target in ((reader, far_writer), (far_reader, writer)):
            pump = asyncio.create_task(_pump(source, target))
            self._pumps.add(pump)
            pump.add_done_callback(self._pumps.discard)


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(1 << 16):
            target.write(data)
            await target.drain()
    target.transport.abort()


async def heard(handle: "WorkflowHandle[StandIn, str]", count: int) -> list[str]:
    """Wait until a pod heard so much, and answer it."""
    async with asyncio.timeout(PATIENCE):
        found: list[str] = await handle.execute_update("Until", count, result_type=list[str])
        return found


async def eventually(true: Callable[[], Awaitable[bool]]) -> None:
    """Wait for what another process knows; there is no event to await."""
    async with asyncio.timeout(PATIENCE):
        while not await true():  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.02)


@asynccontextmanager
async def threads_awaited() -> AsyncIterator[None]:
    """Wait at the end for what runs in threads: a cancelled poller leaves its last call, which may write a file."""
    loop, threads = asyncio.get_running_loop(), ThreadPoolExecutor()
    loop.set_default_executor(threads)
    try:
        yield
    finally:
        loop.set_default_executor(ThreadPoolExecutor())
        await asyncio.to_thread(threads.shutdown)


@asynccontextmanager
async def hosted(client: Client, node: str) -> AsyncIterator[None]:
    """Host stand-ins for a node."""
    worker = Worker(
        client,
        task_queue=names.node_task_queue(node),
        workflows=[StandIn],
        workflow_runner=UnsandboxedWorkflowRunner(),
    )
    async with worker:
        yield
