"""Is it known why a plugin is not in use?"""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from activities.clients.device_plugins.device_plugin import DevicePluginError
from activities.hardware.services import HardwareRefused
from proto.node_devices import read_unused_plugins
from tests.worker.devices.lying_plugin import Faults, devices, serving
from tests.worker.devices.test_device_manager import GPU, node, pod
from worker.devices.of_this_node import NodeDevices
from worker.devices.plugins import RegistrationRefused
from worker.devices.unused_plugins import UnusedPlugins
from workflows.decide.devices.requests import NOT_REGISTERED
from workflows.decide.topology.hints import ANY

DROPPED = "its last connection was closed: it lists 10001 devices, more than 10000"
SILENT = "it has registered, but has listed no device yet"


async def while_changing(here: NodeDevices, waits: Callable[[], bool]) -> None:
    """Wait while what is known is still so."""
    async with asyncio.timeout(20):
        while waits():
            await here._event.wait()
            here._event.clear()


async def test_one_that_is_dropped(tmp_path: Path) -> None:
    """Other processes read why, and a pod of the API is told; when it lists what it may, nothing is left of it."""
    root = tmp_path / "root"
    lies = Faults(lists=[devices(*map(str, range(10_001)))])
    async with node(root) as here:
        here.plugins.known_before([GPU])
        async with serving(tmp_path / "bad", lies):
            await here.plugins.register(GPU, str(tmp_path / "bad"), ["v1beta1"])
            await while_changing(here, lambda: here.plugins.unused.get(GPU) != DROPPED)
        await here.write()
        assert read_unused_plugins(root) == {GPU: DROPPED}
        with pytest.raises(HardwareRefused) as refused:
            await here.manager.allocate(pod("u"), "app", ANY)
        assert (refused.value.reason, str(refused.value)) == (
            NOT_REGISTERED,
            f"no healthy devices present; cannot allocate unhealthy devices {GPU}: waiting for its device plugin to register ({DROPPED})",
        )
        async with serving(tmp_path / "good", Faults(lists=[devices("a")])):
            await here.plugins.register(GPU, str(tmp_path / "good"), ["v1beta1"])
            assert await here.plugins.is_registered(GPU, timedelta(seconds=10))
            await here.write()
    assert read_unused_plugins(root) == {}


async def test_one_that_lists_nothing(tmp_path: Path) -> None:
    """Neither a list, nor a device in it."""
    async with node(tmp_path / "root") as here, serving(tmp_path / "p", Faults()) as plugin:
        await here.plugins.register(GPU, str(tmp_path / "p"), ["v1beta1"])
        assert here.plugins.unused.get(GPU) == SILENT
        plugin.more.put_nowait([])
        assert await here.plugins.is_registered(GPU, timedelta(seconds=10))
        assert here.plugins.unused.get(GPU) == "it lists no device"
        plugin.more.put_nowait(devices("a"))
        await while_changing(here, lambda: not here.plugins.inventory[GPU].capacity)
        assert here.plugins.unused.now == {}


async def test_one_that_is_dropped_each_time(tmp_path: Path) -> None:
    """What is told does not change with each registration."""
    told = []
    async with node(tmp_path / "root") as here, serving(tmp_path / "p", Faults(lists=[devices("x" * 300)])):
        for _ in range(3):
            await here.plugins.register(GPU, str(tmp_path / "p"), ["v1beta1"])
            told.append(here.plugins.unused.get(GPU))
            if (endpoint := here.plugins._resources[GPU].endpoint) and endpoint.task:
                await asyncio.wait([endpoint.task])
            told.append(here.plugins.unused.get(GPU))
    long = "its last connection was closed: it lists a device whose ID has more than 256 characters"
    assert told == [SILENT, *[long] * 5]


async def test_one_that_comes_again_and_is_silent(tmp_path: Path) -> None:
    """That is told once the time for its first list is over."""
    async with node(tmp_path / "root") as here, serving(tmp_path / "p", Faults()):
        here.plugins._stop_grace = timedelta(seconds=0.5)
        async with serving(tmp_path / "first", Faults()):
            await here.plugins.register(GPU, str(tmp_path / "first"), ["v1beta1"])
        await while_changing(here, lambda: here.plugins.unused.get(GPU) == SILENT)
        closed = here.plugins.unused.get(GPU)
        await here.plugins.register(GPU, str(tmp_path / "p"), ["v1beta1"])
        assert here.plugins.unused.get(GPU) == closed
        await while_changing(here, lambda: here.plugins.unused.get(GPU) == closed)
        assert here.plugins.unused.get(GPU) == SILENT


async def test_one_that_cannot_register(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that no resource can have is not kept, and one that is in use is not blamed for another."""
    monkeypatch.setattr("activities.clients.device_plugins.device_plugin.CONNECT_SECONDS", 0.2)
    async with node(tmp_path / "root") as here, serving(tmp_path / "p", Faults(lists=[devices("a")])):
        with pytest.raises(DevicePluginError):
            await here.plugins.register(GPU, str(tmp_path / "nobody"), ["v1beta1"])
        failed = "its registration failed: failed to dial device plugin: context deadline exceeded"
        assert here.plugins.unused.now == {GPU: failed}
        with pytest.raises(RegistrationRefused):
            await here.plugins.register("x" * 1000, str(tmp_path / "p"), ["v1beta1"])
        await here.plugins.register(GPU, str(tmp_path / "p"), ["v1beta1"])
        assert await here.plugins.is_registered(GPU, timedelta(seconds=10))
        with pytest.raises(DevicePluginError):
            await here.plugins.register(GPU, str(tmp_path / "nobody"), ["v1beta1"])
        assert here.plugins.unused.now == {}


def test_there_are_not_any_number_of_reasons() -> None:
    """The oldest is forgotten; what is told again is no news."""
    known = UnusedPlugins(2)
    assert [known.tell(name, "why") for name in ("a", "b", "a", "c")] == [True, True, False, True]
    assert known.now == {"b": "why", "c": "why"}
    assert [known.tell("b", ""), known.tell("b", ""), known.get("b")] == [True, False, ""]
