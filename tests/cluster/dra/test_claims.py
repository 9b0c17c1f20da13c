"""Does a container get the device of its claim, with the official test driver, real containerd and a real API server?"""

import asyncio
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from proto.podresources.v1 import api_pb2 as api
from tests.cluster.binaries import NoBinaries
from tests.cluster.cluster_node import ClusterNode, pods_path
from tests.cluster.dra.claims import CLAIMS, RESOURCE, claim, device_class, reserve, using
from tests.cluster.dra.official_driver import cdi_files, find_driver, official_driver
from tests.node.containerd_view import container_pid
from tests.node.operating import tempolet
from tests.worker.node.test_pod_resources import ask
from worker.dra.claim_manager import load_accounts

WIPED = 120.0
"""Seconds in which the slices of a driver go that is gone: 30, and more on a slow machine."""


@pytest.fixture(scope="module", autouse=True)
def _device_class(cluster_node: ClusterNode) -> Iterator[None]:
    try:
        find_driver()
    except NoBinaries as error:
        pytest.skip(str(error))
    with device_class(cluster_node):
        yield


@pytest.fixture(scope="module")
def driver_name(slot: int) -> str:
    """Return a name of this session's own: CDI files are the machine's."""
    return f"tempolet{slot}.cdi.k8s.io"


def on_disk(node: ClusterNode) -> dict[str, int]:
    """Return how many pods each claim has, by the kubelet's file."""
    return {one.claim.name: len(one.pods) for one in load_accounts(node.root_dir).values()}


def in_pod_resources(node: ClusterNode, name: str) -> list[tuple[str, str, str, str, int]]:
    """Return what PodResources tells of the claims of a pod's container: claim, driver, pool, device, number of CDI devices."""
    asked = api.GetPodResourcesRequest(pod_name=name, pod_namespace="default")
    [container] = asyncio.run(ask(node.root_dir, "Get", asked)).pod_resources.containers
    return [
        (one.claim_name, each.driver_name, each.pool_name, each.device_name, len(each.cdi_devices))
        for one in container.dynamic_resources
        for each in one.claim_resources
    ]


def test_a_claim_shared_by_two_pods(cluster_node: ClusterNode, driver_name: str) -> None:
    """No pod starts without driver and reservation; the worker may be killed; the last pod's end undoes the claim."""
    node = cluster_node
    claim(node, "shared", driver_name)
    first = using(node, "first", "shared")
    reason = "FailedPrepareDynamicResources"
    node.until_pod("first", lambda one: one.reason == reason and "is not allowed to use" in one.message, "refused")
    reserve(node, "shared", first)
    node.until_pod("first", lambda one: f"DRA driver {driver_name} is not registered" in one.message, "no driver")
    assert on_disk(node) == {}
    with official_driver(node, driver_name):
        node.until_running("first")
        assert in_pod_resources(node, "first") == [
            ("shared", driver_name, node.name, "device-00", len(cdi_files(driver_name)))
        ]
        device = f"device device-00 of pool {node.name} of driver {driver_name}"
        _, said = tempolet(node, "explain", "default/first")
        assert f"hardware: container main has {device}: allocated for ResourceClaim shared" in said
        _, said = tempolet(node, "history", "default/first")
        assert f"{device} is the pod's: allocated for request r of ResourceClaim shared" in said
        second = using(node, "second", "shared")
        reserve(node, "shared", first, second)
        node.until_running("second")
        assert on_disk(node) == {"shared": 2}
        assert len(cdi_files(driver_name)) == 1
        node.stop("worker", signal.SIGKILL)
        node.start_all()
        delete(node, "first")
        assert on_disk(node) == {"shared": 1}
        assert len(cdi_files(driver_name)) == 1
        delete(node, "second")
        assert on_disk(node) == {}
        assert cdi_files(driver_name) == []
    node.api.delete(f"{CLAIMS}/shared")


def test_explain_of_a_pod_whose_claim_is_prepared_for_another_one(cluster_node: ClusterNode, driver_name: str) -> None:
    """The file names the pod before the driver is asked, so that a worker that dies in between undoes it."""
    node = cluster_node
    claim(node, "shared", driver_name)
    device = f"device device-00 of pool {node.name} of driver {driver_name}"
    with official_driver(node, driver_name) as process:
        first = using(node, "first", "shared")
        reserve(node, "shared", first)
        node.until_running("first")
        node.stop("worker", signal.SIGKILL)
        told = node.log("worker")
        node.start_all()
        node.until(
            lambda: '"plugin registered"' in node.log("worker").removeprefix(told), "the driver is registered again"
        )
        process.kill()
        process.wait()
        reserve(node, "shared", first, using(node, "second", "shared"))
        node.until_pod("second", lambda one: "NodePrepareResources" in one.message, "not prepared again")
        assert on_disk(node) == {"shared": 2}
        _, said = tempolet(node, "explain", "default/second")
        assert "hardware: container main has no device of ResourceClaim shared yet: it is not prepared" in said
        assert "try to prepare resource claims again" in said
        _, said = tempolet(node, "explain", "default/first")
        assert f"hardware: container main has {device}: allocated for ResourceClaim shared, which 1 other pod" in said
    with official_driver(node, driver_name):
        delete(node, "second")
        delete(node, "first")
        assert on_disk(node) == {}
    node.api.delete(f"{CLAIMS}/shared")


def test_the_slices_of_a_driver_that_is_gone_are_removed(cluster_node: ClusterNode, driver_name: str) -> None:
    """So that the scheduler sends no pod here; the node may delete them by its own rights."""
    path = f"{RESOURCE}/resourceslices"

    def slices(found: Any) -> list[Any]:
        return [one for one in found["items"] if one["spec"]["driver"] == driver_name]

    with official_driver(cluster_node, driver_name) as process:
        cluster_node.api.until(path, slices, "published")
        process.kill()
        process.wait()
        cluster_node.api.until(path, lambda found: not slices(found), "removed", WIPED)


def test_an_end_is_told_once_the_claim_is_unprepared(cluster_node: ClusterNode, driver_name: str) -> None:
    """The API frees a claim whose pod has ended, so that its device may be given to another pod."""
    node = cluster_node
    claim(node, "held", driver_name)
    with official_driver(node, driver_name) as process:
        reserve(node, "held", using(node, "ending", "held"))
        main = node.until_running("ending").containers["main"]
        process.kill()
        process.wait()
        os.kill(container_pid(node.containerd, main.container_id), signal.SIGKILL)
        node.until_pod("ending", lambda one: one.reason == "FailedUnprepareDynamicResources", "not unprepared")
        shown = node.until_api_pod("ending", lambda one: "terminated" in state_of(one), "its container's end told")
        assert shown["status"]["phase"] == "Running"
    with official_driver(node, driver_name):
        node.until_api_pod("ending", lambda one: one["status"]["phase"] == "Failed", "ended")
        assert on_disk(node) == {}
    delete(node, "ending")
    node.api.delete(f"{CLAIMS}/held")


def state_of(pod: Any) -> Any:
    """Return the state of a pod's only container."""
    return pod["status"]["containerStatuses"][0]["state"]


def delete(node: ClusterNode, name: str) -> None:
    """Delete a pod and wait until it is gone."""
    node.api.delete(pods_path(name=name), gracePeriodSeconds=1)
    node.until_pod_gone(name)
