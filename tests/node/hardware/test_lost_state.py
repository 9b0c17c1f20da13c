"""Does a container keep its CPUs and its memory if both the ledger and the state files are lost while it runs?"""

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Final

import grpc
import pytest

from activities.clients.cri_error import CriError
from activities.clients.runtime import RuntimeClient
from activities.clients.start_limit import StartLimit
from activities.hardware.services import HardwareRefused
from proto.cri.v1 import api_pb2 as cri
from proto.pod_snapshot import FILE_NAME, POD_FILE_NAME, PodSnapshot
from proto.temporal.hardware.ledger import AllocateHardware
from tests.node.away import databases
from tests.node.away.stopped_temporal import own_temporal
from tests.node.containerd_view import sandboxes_of
from tests.node.hardware.cpus import ALL, CPUS, KEYS, OTHERS, allowed, whole
from tests.node.recordings.recorded_node import status
from tests.node.tempolet_node import TempoletNode, pod_manifest
from worker.hardware import runtime_containers, unread_containers
from worker.hardware.exclusive_cpus import load_cpus
from worker.hardware.node_hardware import NodeHardware
from worker.hardware.runtime_containers import RuntimeContainers
from worker.hardware.unread_containers import UnreadContainers
from worker.settings.hardware.cpu_manager import CpuManager
from worker.settings.hardware.cpu_topology import read_topology
from worker.standalone.containerd import Containerd
from worker.standalone.temporal_server import TemporalServer
from workflows.decide.cpus.options import Options
from workflows.decide.cpus.state_file import STATE_FILE
from workflows.decide.cpus.static_policy import static_policy

METADATA: Final = {"namespace": "default", "name": "late"}
__all__ = ["own_temporal"]  # a fixture
pytestmark = pytest.mark.skipif(CPUS < 2, reason="one CPU is reserved, and another one is given")


@pytest.fixture
def node(tmp_path: Path, containerd: Containerd, own_temporal: TemporalServer) -> Iterator[TempoletNode]:
    """Run a node with the static policy and a Temporal of its own."""
    with TempoletNode(tmp_path / "node", containerd, own_temporal, keys=KEYS) as made:
        yield made


def lose(node: TempoletNode, *, snapshots: bool) -> None:
    """Stop everything but the pods, and delete Temporal's database, the node's own record of it and the state file."""
    for role in reversed(node.roles):
        node.stop(role)
    node.temporal.stop()
    databases.delete(node.temporal)
    shutil.rmtree(node.root_dir / "tempolet" / "away")
    (node.root_dir / STATE_FILE).unlink()
    if snapshots:
        for name in (FILE_NAME, POD_FILE_NAME):
            for one in node.root_dir.glob(f"pods/*/{name}"):
                one.unlink()


class Silent(RuntimeClient):
    """Does not tell of a container, which it has."""

    about: ClassVar[set[str]] = set()

    async def container_status(self, container_id: str) -> cri.ContainerStatus:
        """Fail for some."""
        if container_id in self.about:
            raise CriError("ContainerStatus", grpc.StatusCode.UNKNOWN, "failed")
        return await super().container_status(container_id)


def test_a_container_of_which_the_runtime_does_not_tell(node: TempoletNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its CPUs are nobody's while that is so, and its own again afterwards."""
    node.apply(whole("whole"))
    own = node.until_running("whole")
    node.stop("worker")
    (node.root_dir / STATE_FILE).unlink()
    (container,) = own.containers.values()
    monkeypatch.setattr(runtime_containers, "RuntimeClient", Silent)
    monkeypatch.setattr(runtime_containers, "PAUSE", 0.0)
    monkeypatch.setattr(unread_containers, "FIRST_PAUSE", 0.0)
    settings = CpuManager(static_policy(read_topology(), Options(), 1, frozenset({0})))
    asked = AllocateHardware({"metadata": {**METADATA, "uid": "late"}, "spec": whole("late", 1)["spec"]})

    async def recover() -> None:
        reader = RuntimeContainers(node.containerd.endpoint, node.name, is_guaranteed=lambda _: True)
        unread = UnreadContainers(reader)
        Silent.about = {container.container_id}
        cpus = await asyncio.to_thread(load_cpus, settings, node.root_dir, left=reader.left, unread=unread)
        assert cpus
        hardware = NodeHardware([cpus], unread=unread)
        with pytest.raises(HardwareRefused, match=container.container_id):
            await hardware.allocate(asked)
        assert not (node.root_dir / STATE_FILE).exists()
        Silent.about = set()
        await unread.run(hardware.recovered)
        with pytest.raises(HardwareRefused, match="requested=1, available=0"):
            await hardware.allocate(asked)

    asyncio.run(recover())
    assert json.loads((node.root_dir / STATE_FILE).read_text())["entries"] == {own.uid: {"main": OTHERS}}
    node.start("worker")
    assert allowed(node, node.until_running("whole")) == OTHERS


async def remove_sandboxes(node: TempoletNode, pod: PodSnapshot) -> None:
    """Take a pod from the runtime, as `tempolet down` does."""
    runtime = RuntimeClient(node.containerd.endpoint, StartLimit(1))
    for sandbox_id, _ in sandboxes_of(node.containerd, pod.uid):
        await runtime.stop_pod_sandbox(sandbox_id)
        await runtime.remove_pod_sandbox(sandbox_id)
    await runtime.close()


def test_a_pod_that_ended_meanwhile_has_its_cpus_again(node: TempoletNode) -> None:
    """The ledger has them: it chooses for a pod once, also if an administrator deletes the file of a node that is down."""
    node.apply(whole("whole"))
    own = node.until_running("whole")
    for role in reversed(node.roles):
        node.stop(role)
    asyncio.run(remove_sandboxes(node, own))
    (node.root_dir / STATE_FILE).unlink()
    node.start_all()
    again = node.until_pod("whole", lambda one: one.ready and one.containers != own.containers, "it runs again")
    assert allowed(node, again) == OTHERS
    assert json.loads((node.root_dir / STATE_FILE).read_text())["entries"] == {own.uid: {"main": OTHERS}}


@pytest.mark.parametrize("snapshots", [pytest.param(False, id="snapshots-left"), pytest.param(True, id="all-lost")])
def test_a_running_container_keeps_its_cpus(node: TempoletNode, snapshots: bool) -> None:
    """A pod that comes at the same time does not get them, and they are free when their pod is over."""
    node.apply(pod_manifest("shared"))
    node.apply(whole("whole"))
    shared, own = node.until_running("shared"), node.until_running("whole")
    node.until(lambda: allowed(node, shared) == "0", "the other container gives way")
    status(node)
    lose(node, snapshots=snapshots)
    node.apply(whole("late", 1))
    node.temporal.start()
    node.start_all()
    late = node.until_pod("late", lambda one: one.phase == "Failed", "nothing is left")
    assert late.reason == "UnexpectedAdmissionError"
    again = node.until_running("whole")
    assert again.containers["main"].container_id == own.containers["main"].container_id
    assert (allowed(node, own), allowed(node, shared)) == (OTHERS, "0")
    assert json.loads((node.root_dir / STATE_FILE).read_text())["entries"] == {own.uid: {"main": OTHERS}}
    node.take_away("whole", "late")
    node.until(lambda: allowed(node, shared) == ALL, "the CPUs are shared again")
    node.apply(whole("next"))
    assert allowed(node, node.until_running("next")) == OTHERS
