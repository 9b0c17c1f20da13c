"""Are devices aligned with CPUs, given to one pod alone, and does a plugin that hangs or lies stop nobody else?"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from activities.clients.device_plugins import device_plugin
from activities.hardware.services import HardwareRefused
from proto.deviceplugin.v1beta1 import api_pb2 as api
from proto.temporal.hardware.ledger import UNEXPECTED, AllocateHardware, GivenDevices
from tests.worker.devices.lying_plugin import Faults, devices, serving
from worker.devices.of_this_node import NodeDevices
from worker.hardware import node_hardware
from worker.hardware.node_hardware import NodeHardware
from workflows.decide.topology.numa_nodes import NumaNodes
from workflows.decide.topology.scopes import topology_manager

GPU, NIC = "example.com/gpu", "example.com/nic"
ANSWER = api.AllocateResponse(container_responses=[api.ContainerAllocateResponse(envs={"GPU": "0"})])
TWO_NODES = NumaNodes((0, 1), {0: {0: 10, 1: 20}, 1: {0: 20, 1: 10}})


def pod(uid: str, *containers: dict[str, str]) -> dict[str, Any]:
    """Build the slice of a pod."""
    made = [{"name": f"c{number}", "resources": {"limits": limits}} for number, limits in enumerate(containers)]
    return {"metadata": {"namespace": "default", "name": uid, "uid": uid}, "spec": {"containers": made}}


@asynccontextmanager
async def node(tmp_path: Path, policy: str = "none", **plugins: Faults) -> AsyncIterator[NodeHardware]:
    """Run a node with two NUMA nodes and these plugins."""
    here = NodeDevices(tmp_path / "root")
    here.manager._numa_nodes = TWO_NODES.nodes
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(here.plugins.close)
        for name, faults in plugins.items():
            await stack.enter_async_context(serving(tmp_path / name, faults))
            await here.plugins.register(f"example.com/{name}", str(tmp_path / name), ["v1beta1"])
            assert await here.plugins.is_registered(f"example.com/{name}", timedelta(seconds=10))
        yield NodeHardware([here.manager], topology_manager(policy, "container", {}, TWO_NODES))


async def given(
    hardware: NodeHardware, asked: dict[str, Any], counting: Sequence[str] = ()
) -> list[tuple[GivenDevices, ...]]:
    """Admit a pod; returns what each container has."""
    assigned = await hardware.allocate(AllocateHardware(asked, {}, tuple(counting)))
    return [one.devices for one in assigned.containers.values()]


async def test_devices_of_two_plugins_lie_together(tmp_path: Path) -> None:
    """On the one NUMA node that has both; a pod for which there is none is rejected and leaves nothing."""
    gpus = Faults(lists=[[*devices("g0", node=0), *devices("g1", node=1)]], answer=ANSWER)
    nics = Faults(lists=[devices("n1", node=1)], answer=ANSWER)
    async with node(tmp_path, "single-numa-node", gpu=gpus, nic=nics) as hardware:
        assert await given(hardware, pod("u", {GPU: "1", NIC: "1"})) == [
            (GivenDevices(GPU, ("g1",), 1), GivenDevices(NIC, ("n1",), 1))
        ]
        with pytest.raises(HardwareRefused) as refused:
            await given(hardware, pod("v", {GPU: "2"}), ["u"])
        assert refused.value.reason == "TopologyAffinityError"
        assert hardware.holders() == {"u"}


async def test_a_pod_that_is_refused_halfway_leaves_nothing(tmp_path: Path) -> None:
    """Its first container had its devices already."""
    async with node(tmp_path, gpu=Faults(lists=[devices("a", "b")], answer=ANSWER)) as hardware:
        with pytest.raises(HardwareRefused, match="Requested: 2, Available: 1"):
            await given(hardware, pod("u", {GPU: "1"}, {GPU: "2"}))
        assert await given(hardware, pod("v", {GPU: "2"})) == [(GivenDevices(GPU, ("a", "b")),)]


async def test_a_plugin_that_hangs_at_allocate_is_waited_for_only_so_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pod is rejected, and others get devices of other plugins; what needs none is created meanwhile."""
    monkeypatch.setattr(device_plugin, "ALLOCATE_SECONDS", 1.0)
    bad = Faults(lists=[devices("a")], hangs=frozenset({"Allocate"}))
    async with node(tmp_path, gpu=bad, nic=Faults(lists=[devices("n")], answer=ANSWER)) as hardware:
        waits = asyncio.create_task(given(hardware, pod("u", {GPU: "1"})))
        other = asyncio.create_task(given(hardware, pod("v", {NIC: "1"}), ["u"]))
        await hardware.starting("w", {"name": "c0"})
        assert not waits.done()
        with pytest.raises(HardwareRefused, match="code = DeadlineExceeded") as refused:
            await waits
        assert refused.value.reason == UNEXPECTED
        assert await other == [(GivenDevices(NIC, ("n",)),)]
        assert hardware.holders() == {"v"}


async def test_pods_with_hardware_go_on_while_a_plugin_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their containers start again, and what is over is free afterwards."""
    monkeypatch.setattr(device_plugin, "ALLOCATE_SECONDS", 2.0)
    bad = Faults(lists=[devices("a")], hangs=frozenset({"Allocate"}))
    async with node(tmp_path, gpu=bad, nic=Faults(lists=[devices("n")], answer=ANSWER)) as hardware:
        asked = pod("v", {NIC: "1"})
        await given(hardware, asked)
        waits = asyncio.create_task(given(hardware, pod("u", {GPU: "1"}), ["v"]))
        await asyncio.sleep(0)
        await hardware.starting("v", asked["spec"]["containers"][0])
        await hardware.release({"v"})
        assert not waits.done()
        assert hardware.holders() == {"v"}
        with pytest.raises(HardwareRefused, match="code = DeadlineExceeded"):
            await waits
        assert hardware.holders() == set()


async def test_plugins_that_are_slow_one_by_one_are_not_waited_for_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pod is rejected as a whole."""
    monkeypatch.setattr(node_hardware, "ALLOCATED_WITHIN", 1.0)
    bad = Faults(lists=[devices("a")], hangs=frozenset({"Allocate"}))
    async with node(tmp_path, gpu=bad) as hardware:
        with pytest.raises(HardwareRefused, match="due to device plugins that have not answered within 1 s") as refused:
            await given(hardware, pod("u", {GPU: "1"}))
        assert (refused.value.reason, hardware.holders()) == (UNEXPECTED, set())


async def test_a_plugin_that_hangs_at_a_start_stops_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither another start nor the next pod."""
    monkeypatch.setattr(device_plugin, "PRE_START_SECONDS", 2.0)
    bad = Faults(lists=[devices("a")], answer=ANSWER, is_prestarted=True, hangs=frozenset({"PreStartContainer"}))
    async with node(tmp_path, gpu=bad, nic=Faults(lists=[devices("n")], answer=ANSWER)) as hardware:
        asked = pod("u", {GPU: "1"})
        await given(hardware, asked)
        waits = asyncio.create_task(hardware.starting("u", asked["spec"]["containers"][0]))
        await given(hardware, pod("v", {NIC: "1"}), ["u"])
        await hardware.starting("v", pod("v", {NIC: "1"})["spec"]["containers"][0])
        assert not waits.done()
        with pytest.raises(HardwareRefused, match=r"PreStartContainer rpc failed with err: .*DeadlineExceeded"):
            await waits


@pytest.mark.parametrize(
    "preferred",
    [
        pytest.param(["a"], id="one-that-is-in-use"),
        pytest.param(["nowhere"] * 1000, id="unknown-ones"),
        pytest.param([], id="none"),
        pytest.param(["b", "c"], id="more-than-asked-for"),
    ],
)
async def test_what_a_plugin_prefers_gives_nothing_twice(tmp_path: Path, preferred: list[str]) -> None:
    """Whatever it says, a container has as many free devices as it asks for."""
    faults = Faults(lists=[devices("a", "b", "c", node=0)], answer=ANSWER, preferred=["a"])
    async with node(tmp_path, gpu=faults) as hardware:
        assert await given(hardware, pod("u", {GPU: "1"})) == [(GivenDevices(GPU, ("a",), 0),)]
        faults.preferred = preferred
        assert await given(hardware, pod("v", {GPU: "1"}), ["u"]) == [(GivenDevices(GPU, ("b",), 0),)]
