"""tempolet as `tempolet up` starts it: embedded Temporal, worker and poller, encryption and all defaults.

It calls `up` itself, with its own folders, ports and names, so that an operator's setup is measured.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from temporalio.client import Client, WorkflowHandle

from proto.temporal.names import NAMESPACE as TEMPORAL_NAMESPACE
from proto.temporal.names import POD_STATUS, PodWorkflowId
from tests.bench.cri import POD_NAME
from tests.bench.manifests import NAMESPACE, OBJECT, Pod
from tests.bench.peers.peer import ManifestPeer
from tests.bench.peers.place import NODE
from tests.free_ports import free_ports
from worker.standalone.progress import Progress
from worker.standalone.settings import Ports, Settings
from worker.standalone.up import up
from worker.temporal.codec import data_converter
from worker.temporal.keys import KeyFile
from worker.temporal.temporal_client import way_to

POD_UID = "io.kubernetes.pod.uid"
Handle = WorkflowHandle[Any, Any]
QUIET_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class History:
    """The length of a workflow's history, by Temporal's count."""

    events: int
    size_bytes: int


class Tempolet(ManifestPeer):
    """One standalone node of ours."""

    name: ClassVar[str] = "tempolet"
    number: ClassVar[int] = 2
    processes: ClassVar[tuple[str, ...]] = ("poller", "worker", "temporal")  # in the order to stop them

    knows_objects: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        ui, worker, poller = free_ports(3)
        self.settings = Settings(
            state_dir=self.place.home,
            run_dir=self.place.run,
            hostname_override=NODE,
            network=self.containerd.network,
            cgroup=self.place.cgroup,
            ports=Ports(ui, worker, poller),
        )
        self._client: Client | None = None
        self._handles: dict[str, Handle] = {}

    def begin(self) -> None:
        """Start the node on the running containerd, with the objects that pods refer to."""
        for plural, kind in (("configmaps", "ConfigMap"), ("secrets", "Secret")):
            folder = self.settings.objects / NAMESPACE / plural
            folder.mkdir(parents=True, mode=0o700)
            file = folder / f"{OBJECT}.json"
            content = {"data": {"key": "dmFsdWU="}}  # a Secret's values are base64
            metadata = {"name": OBJECT, "namespace": NAMESPACE}
            file.write_text(json.dumps({"apiVersion": "v1", "kind": kind, "metadata": metadata, **content}))
            file.chmod(0o600)
        up(self.settings, progress=Progress())

    async def connect(self) -> None:
        """Also connect to Temporal, with the node's key to decrypt queries."""
        await super().connect()
        self._client = await Client.connect(
            **way_to(self.settings.temporal.address),
            namespace=TEMPORAL_NAMESPACE,
            data_converter=data_converter(KeyFile(self.settings.key_file)),
        )

    async def history_of(self, pod: Pod) -> History:
        """Read the length of a pod's history once it has stopped growing."""
        handle = await self._workflow_of(pod)
        before, now = None, await _length(handle)
        while before != now:
            await asyncio.sleep(QUIET_SECONDS)
            before, now = now, await _length(handle)
        return now

    async def pod_status(self, pod: Pod) -> Mapping[str, Any]:
        """Query the pod's workflow."""
        if pod.name not in self._handles:
            self._handles = {pod.name: await self._workflow_of(pod)}
        status: Mapping[str, Any] = await self._handles[pod.name].query(POD_STATUS)
        return status

    async def events_of_all(self) -> int:
        """Count the events of every open history."""
        assert self._client is not None, "connect first"
        handles = [
            self._client.get_workflow_handle(one.id)
            async for one in self._client.list_workflows("ExecutionStatus='Running'")
        ]
        lengths: Sequence[History] = await asyncio.gather(*(_length(handle) for handle in handles))
        return sum(one.events for one in lengths)

    async def _workflow_of(self, pod: Pod) -> Handle:
        (sandbox,) = await self.cri.sandboxes(self.pod_name(pod), ready=True)
        workflow_id = str(
            PodWorkflowId(self.settings.hostname_override, NAMESPACE, sandbox.labels[POD_NAME], sandbox.labels[POD_UID])
        )
        assert self._client is not None, "connect first"
        return self._client.get_workflow_handle(workflow_id)


async def _length(handle: Handle) -> History:
    info = (await handle.describe()).raw_description.workflow_execution_info
    return History(info.history_length, info.history_size_bytes)
