"""Does a pod of the API get devices of the official plugin, and is it told in its status, in the Node and by PodResources?"""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from proto.podresources.v1 import api_pb2 as api
from tests.cluster.binaries import NoBinaries
from tests.cluster.cluster_node import ClusterNode, pods_path
from tests.node.hardware.numa_plugin import RESOURCE as NUMA_RESOURCE
from tests.node.hardware.numa_plugin import numa_plugin
from tests.node.hardware.sample_plugin import DEVICES, FILES, RESOURCE, find_plugin, sample_plugin
from tests.node.restarted_machine import restart_machine
from tests.node.tempolet_node import pod_manifest
from tests.worker.node.test_pod_resources import ask


def wanting(name: str, count: int, resource: str = RESOURCE) -> dict[str, Any]:
    """Build a pod that wants devices; it says which it has."""
    manifest = pod_manifest(name, f"ls {' '.join(map(str, FILES))}; sleep 3600")
    manifest["spec"]["containers"][0]["resources"] = {"limits": {resource: str(count)}}
    return manifest


def counts(node: ClusterNode, capacity: str, allocatable: str) -> None:
    """Wait until the Node has so many devices."""
    wanted = (capacity, allocatable)

    def holds(one: Any) -> bool:
        return tuple(one["status"][kind].get(RESOURCE) for kind in ("capacity", "allocatable")) == wanted

    node.api.until(node.path, holds, f"the Node has {capacity} devices, {allocatable} of them healthy")


def test_devices_of_a_pod(cluster_node: ClusterNode) -> None:
    """One that finds none left is rejected; without its plugin the Node has devices that nobody can get."""
    try:
        find_plugin()
    except NoBinaries as error:
        pytest.skip(str(error))
    node = cluster_node
    with sample_plugin(node):
        counts(node, "2", "2")
        node.create_pod(wanting("devices", 2))
        pod = node.until_pod_ready("devices")
        (container,) = pod["status"]["containerStatuses"]
        health = [{"resourceID": one, "health": "Healthy"} for one in DEVICES]
        assert container["allocatedResourcesStatus"] == [{"name": RESOURCE, "resources": health}]
        asked = api.GetPodResourcesRequest(pod_name="devices", pod_namespace="default")
        found = asyncio.run(ask(node.root_dir, "Get", asked)).pod_resources.containers[0].devices
        assert [(one.resource_name, *one.device_ids) for one in found] == [(RESOURCE, one) for one in DEVICES]
        allocatable = asyncio.run(ask(node.root_dir, "GetAllocatableResources", api.AllocatableResourcesRequest()))
        assert [one.device_ids for one in allocatable.devices] == [[one] for one in DEVICES]
        node.create_pod(wanting("late", 1))
        late = node.api.until(pods_path(name="late"), lambda one: one["status"]["phase"] == "Failed", "none is left")
        assert late["status"]["reason"] == "UnexpectedAdmissionError"
        assert late["status"]["message"] == (
            f"Pod was rejected: Allocate failed due to requested number of devices unavailable for {RESOURCE}. "
            "Requested: 1, Available: 0, which is unexpected"
        )
    counts(node, "2", "0")
    node.until_pod_ready("devices")


def opened_at(node: ClusterNode) -> int:
    """Return when the registration of plugins was opened, in nanoseconds; 0: not yet."""
    try:
        return (node.root_dir / "device-plugins/kubelet.sock").stat().st_mtime_ns
    except FileNotFoundError:
        return 0


@contextlib.contextmanager
def listing(node: ClusterNode, *devices: str, after: int = 0) -> Iterator[None]:
    """Run a plugin that has these devices, once the registration was opened after a time."""
    node.until(lambda: opened_at(node) > after, "the registration is open")
    folder = node.root_dir / "device-plugins"
    with numa_plugin(node.directory / "numa-plugin.log", f"--folder={folder}", *(f"{one}=0" for one in devices)):
        yield


@pytest.mark.usefixtures("numa_program")
def test_a_device_is_gone_after_a_boot(cluster_node: ClusterNode) -> None:
    """Its pod is rejected for good, as by a kubelet; one whose device is there starts again."""
    node, names = cluster_node, ("first", "second")
    with listing(node, "d0", "d1"):
        for name in names:
            node.create_pod(wanting(name, 1, NUMA_RESOURCE))
            node.until_pod_ready(name)
        has = {name: _devices(node, name) for name in names}
    before = opened_at(node)
    restart_machine(node, *map(node.until_running, names), roles=("poller", "worker"))
    (lost,), (kept,) = ([name for name in names if has[name] == [one]] for one in ("d1", "d0"))
    with listing(node, "d0", after=before):
        found = node.api.until(pods_path(name=lost), lambda one: one["status"]["phase"] == "Failed", "it is rejected")
        assert found["status"]["reason"] == "UnexpectedAdmissionError"
        assert found["status"]["message"] == (
            "Pod was rejected: Allocate failed due to previously allocated devices are no longer healthy; "
            f"cannot allocate unhealthy devices {NUMA_RESOURCE}, which is unexpected"
        )
        assert "DisruptionTarget" not in [one["type"] for one in found["status"]["conditions"]]
        restarted = node.api.until(
            pods_path(name=kept), lambda one: one["status"]["containerStatuses"][0]["restartCount"] > 0, "it restarts"
        )
        assert restarted["status"]["phase"] == "Running"
        node.until_pod_ready(kept)
        assert _devices(node, kept) == ["d0"]


def _devices(node: ClusterNode, name: str) -> list[str]:
    asked = api.GetPodResourcesRequest(pod_name=name, pod_namespace="default")
    (container,) = asyncio.run(ask(node.root_dir, "Get", asked)).pod_resources.containers
    return [one for devices in container.devices for one in devices.device_ids]
