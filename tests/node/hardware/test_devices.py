"""Does a node on real containerd give a container the devices of the official plugin, whatever is restarted?"""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proto.node_devices import DeviceCount, read_node_devices
from proto.refusals import read_refusals
from proto.temporal import names
from tests.cluster.binaries import NoBinaries
from tests.node.away.test_without_temporal import kill_container
from tests.node.containerd_view import runtime_spec
from tests.node.hardware.sample_plugin import DEVICES, FILES, RESOURCE, find_plugin, sample_plugin
from tests.node.operating import tempolet
from tests.node.tempolet_node import TempoletNode, pod_manifest, wait
from worker.devices.checkpoint_files import load_checkpoint
from worker.node.pod_resources.assigned import AssignedDevices
from worker.node.pod_resources.listing import Listing
from worker.standalone.containerd import Containerd
from worker.standalone.temporal_server import TemporalServer
from workflows.decide.devices.checkpoint import STATE_FILE

KEYS = {"cpuManagerReconcilePeriod": "1s"}
"""How often what pods had is freed."""
REGISTERED = '"device plugin registered"'


@pytest.fixture
def node(tmp_path: Path, containerd: Containerd, temporal: TemporalServer) -> Iterator[TempoletNode]:
    """Start a node, once the plugin is built."""
    try:
        find_plugin()
    except NoBinaries as error:
        pytest.skip(str(error))
    with TempoletNode(tmp_path / "n", containerd, temporal, keys=KEYS) as made:
        yield made


def wanting(name: str, count: int, command: str = "sleep 3600") -> dict[str, Any]:
    """Build a pod that wants devices."""
    manifest = pod_manifest(name, command)
    manifest["spec"]["containers"][0]["resources"] = {"limits": {RESOURCE: str(count)}}
    return manifest


def mounted(node: TempoletNode, name: str) -> set[str]:
    """Return the files of devices in a pod's container."""
    (container,) = node.until_running(name).containers.values()
    spec = runtime_spec(node.containerd, container.container_id)
    return {one["source"] for one in spec["mounts"]} & {str(one) for one in FILES}


def told(node: TempoletNode, name: str) -> set[str]:
    """Return the devices that PodResources tells of for a pod, as the node process reads them."""
    found = wait(Listing(node.root_dir, (AssignedDevices(node.root_dir),)).pod("default", f"{name}-{node.name}"))
    containers = found.containers if found else ()
    return {one for container in containers for devices in container.devices for one in devices.device_ids}


def counted(node: TempoletNode, count: DeviceCount) -> None:
    """Wait until the node has so many devices."""
    node.until(lambda: read_node_devices(node.root_dir).get(RESOURCE) == count, f"the node has {count}")


def test_devices_of_the_official_plugin(node: TempoletNode) -> None:
    """A pod waits for the plugin, has its device alone, and keeps it over restarts of the worker and of the plugin."""
    node.apply(wanting("first", 1))
    node.until(
        lambda: any(RESOURCE in one.message for one in read_refusals(node.root_dir)), "it is told that the pod waits"
    )
    with sample_plugin(node):
        counted(node, DeviceCount(2, 2))
        own = mounted(node, "first")
        assert len(own) == 1
        uid = node.until_running("first").uid
        node.apply(wanting("many", 2))
        many = node.until_pod("many", lambda one: one.phase == "Failed", "only one device is left")
        assert many.reason == "UnexpectedAdmissionError"
        assert many.status["message"] == (
            f"Pod was rejected: Allocate failed due to requested number of devices unavailable for {RESOURCE}. "
            "Requested: 2, Available: 1, which is unexpected"
        )
        code, told = tempolet(node, "explain", f"default/first-{node.name}")
        assert code == 0
        assert f"hardware: container main has {RESOURCE} {next(iter(own)).rpartition('/')[2]}" in told
        assert "not healthy" not in told
        node.stop("worker", signal.SIGKILL)
        node.start("worker")
        node.until(lambda: node.log("worker").count(REGISTERED) == 2, "the plugin registers again by itself")
        counted(node, DeviceCount(2, 2))
        node.apply(wanting("second", 1))
        assert mounted(node, "second") | own == {str(one) for one in FILES}
        assert mounted(node, "first") == own
        assert node.until_running("first").uid == uid
        node.take_away("second", "many")
        node.until(lambda: load_checkpoint(node.root_dir).assignments.pods.keys() == {uid}, "its device is free again")
    counted(node, DeviceCount(2, 0))
    node.until_running("first")
    device = next(iter(own)).rpartition("/")[2]
    _, told = tempolet(node, "explain", f"default/first-{node.name}")
    ill = f"hardware: container main: {RESOURCE} {device}: not healthy, or its device plugin is not connected"
    assert ill in " ".join(told.split())


def test_who_waits_for_a_plugin_that_hangs_is_shown(node: TempoletNode) -> None:
    """Its pod, and the pod after that; both run once it answers."""
    first, second = (f"default/{name}-{node.name}" for name in ("first", "second"))

    def waits(pod: str, why: str) -> bool:
        return any((one.pod, one.waits) == (pod, True) and why in one.message for one in read_refusals(node.root_dir))

    with sample_plugin(node) as plugin:
        counted(node, DeviceCount(2, 2))
        plugin.send_signal(signal.SIGSTOP)
        node.apply(wanting("first", 1))
        node.until(lambda: waits(first, "its hardware is being chosen"), "the first is shown")
        node.apply(wanting("second", 1))
        node.until(lambda: waits(second, f"after that of {first}"), "the second is shown")
        _, pods = tempolet(node, "pods")
        assert f"waiting {first}: AdmissionPending: its hardware is being chosen" in " ".join(pods.split())
        code, told = tempolet(node, "explain", second)
        assert code == 0
        assert f"waiting {second}: AdmissionPending: its hardware is chosen after that of {first}" in " ".join(
            told.split()
        )
        plugin.send_signal(signal.SIGCONT)
        assert mounted(node, "first") | mounted(node, "second") == {str(one) for one in FILES}
        node.until(lambda: read_refusals(node.root_dir) == [], "nobody waits")


def test_a_lost_checkpoint(node: TempoletNode) -> None:
    """And a lost ledger: the container keeps its device, another pod gets the other one, and a restart has the same again."""
    with sample_plugin(node):
        counted(node, DeviceCount(2, 2))
        node.apply(wanting("first", 1))
        own = mounted(node, "first")
        first = node.until_running("first")
        for role in reversed(node.roles):
            node.stop(role, signal.SIGKILL)
        wait(_forgotten(node))
        (node.root_dir / STATE_FILE).unlink()
        node.start_all()
        node.until(lambda: node.log("worker").count(REGISTERED) == 2, "the plugin registers again by itself")
        counted(node, DeviceCount(2, 2))
        node.until(lambda: told(node, "first") == {Path(one).name for one in own}, "PodResources tells of its device")
        node.apply(wanting("second", 1))
        assert mounted(node, "second") | own == {str(one) for one in FILES}
        kill_container(node, first)
        again = node.until_pod("first", lambda one: one.ready and one.restarts == 1, "it runs again")
        assert again.containers != first.containers
        assert mounted(node, "first") == own
        has = load_checkpoint(node.root_dir).assignments
        assert {has.of(one.uid, "main", RESOURCE) for one in node.snapshots()} == {frozenset({one}) for one in DEVICES}


def test_explain_after_a_lost_checkpoint(node: TempoletNode) -> None:
    """The ledger has the device and why: the line is the same, before the container starts again and after."""
    with sample_plugin(node):
        counted(node, DeviceCount(2, 2))
        node.apply(wanting("first", 1))
        first = node.until_running("first")
        line = hardware(node, "first")
        assert f"container main has {RESOURCE}" in line
        node.stop("worker", signal.SIGKILL)
        (node.root_dir / STATE_FILE).unlink()
        node.start("worker")
        node.until(lambda: node.log("worker").count(REGISTERED) == 2, "the plugin registers again by itself")
        counted(node, DeviceCount(2, 2))
        assert hardware(node, "first") == line
        kill_container(node, first)
        node.until_pod("first", lambda one: one.ready and one.restarts == 1, "it runs again")
        assert hardware(node, "first") == line


def hardware(node: TempoletNode, name: str) -> str:
    """Return what `explain` says of a pod's hardware."""
    _, said = tempolet(node, "explain", f"default/{name}-{node.name}")
    return "".join(one for one in said.splitlines(keepends=True) if one.startswith("hardware: "))


async def _forgotten(node: TempoletNode) -> None:
    """End the node's workflow, whose successor has an empty ledger."""
    client = await node.client()
    await client.get_workflow_handle(names.node_workflow_id(node.name)).terminate("the ledger is lost")
