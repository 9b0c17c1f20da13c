"""Does a pod of the API get devices of the official plugin, and is it told in its status, in the Node and by PodResources?"""

import asyncio
from typing import Any

import pytest

from proto.podresources.v1 import api_pb2 as api
from tests.cluster.binaries import NoBinaries
from tests.cluster.cluster_node import ClusterNode, pods_path
from tests.node.hardware.sample_plugin import DEVICES, FILES, RESOURCE, find_plugin, sample_plugin
from tests.node.tempolet_node import pod_manifest
from tests.worker.node.test_pod_resources import ask


def wanting(name: str, count: int) -> dict[str, Any]:
    """Build a pod that wants devices; it says which it has."""
    manifest = pod_manifest(name, f"ls {' '.join(map(str, FILES))}; sleep 3600")
    manifest["spec"]["containers"][0]["resources"] = {"limits": {RESOURCE: str(count)}}
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
