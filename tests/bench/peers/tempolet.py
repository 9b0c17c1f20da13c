"""tempolet as `tempolet up` starts it: embedded Temporal, worker and poller, encryption and every default on.

`up` itself is called, with folders, ports and names of the bench's own, so that what is measured is what an operator gets.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from temporalio.client import Client, WorkflowHandle

from proto.temporal.names import NAMESPACE as TEMPORAL_NAMESPACE
from proto.temporal.names import PodWorkflowId
from tests.bench.cri import POD_NAME
from tests.bench.manifests import NAMESPACE, Pod
from tests.bench.peers.peer import ManifestPeer
from tests.bench.peers.place import NODE
from worker.standalone.progress import Progress
from worker.standalone.settings import Ports, Settings
from worker.standalone.temporal_server import free_ports
from worker.standalone.up import up

POD_UID = "io.kubernetes.pod.uid"
QUIET_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class History:
    """How long a workflow's history is, as Temporal counts it."""

    events: int
    size_bytes: int


class Tempolet(ManifestPeer):
    """One standalone node of ours."""

    name: ClassVar[str] = "tempolet"
    number: ClassVar[int] = 2
    processes: ClassVar[tuple[str, ...]] = ("poller", "worker", "temporal")  # in the order to end them

    def __init__(self) -> None:
        super().__init__()
        temporal, ui, codec, worker, poller = free_ports(5)
        self.settings = Settings(
            state_dir=self.place.home,
            run_dir=self.place.run,
            hostname_override=NODE,
            network=self.containerd.network,
            cgroup=self.place.cgroup,
            ports=Ports(temporal, ui, codec, worker, poller),
        )
        self._client: Client | None = None

    def begin(self) -> None:
        """Bring the node up on the containerd that runs already."""
        up(self.settings, progress=Progress())

    async def connect(self) -> None:
        """Connect to Temporal as well; lengths of histories need no key."""
        await super().connect()
        self._client = await Client.connect(self.settings.temporal.address, namespace=TEMPORAL_NAMESPACE)

    async def history_of(self, pod: Pod) -> History:
        """Read the length of a pod's history once it grows no more."""
        (sandbox,) = await self.cri.sandboxes(self.pod_name(pod), ready=True)
        workflow_id = str(PodWorkflowId(NODE, NAMESPACE, sandbox.labels[POD_NAME], sandbox.labels[POD_UID]))
        assert self._client is not None, "connect first"
        handle = self._client.get_workflow_handle(workflow_id)
        before, now = None, await _length(handle)
        while before != now:
            await asyncio.sleep(QUIET_SECONDS)
            before, now = now, await _length(handle)
        return now

    async def events_of_all(self) -> int:
        """Count the events of every open history."""
        assert self._client is not None, "connect first"
        handles = [
            self._client.get_workflow_handle(one.id)
            async for one in self._client.list_workflows("ExecutionStatus='Running'")
        ]
        lengths: Sequence[History] = await asyncio.gather(*(_length(handle) for handle in handles))
        return sum(one.events for one in lengths)


async def _length(handle: "WorkflowHandle[object, object]") -> History:
    info = (await handle.describe()).raw_description.workflow_execution_info
    return History(info.history_length, info.history_size_bytes)
