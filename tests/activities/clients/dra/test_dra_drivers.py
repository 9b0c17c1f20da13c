"""Which plugins of DRA drivers may register, which is asked, and what becomes of answers that fail, lie or do not come?"""

import asyncio
import errno
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from activities.clients.dra import dra_plugin
from activities.clients.dra.dra_drivers import DRA_PLUGIN, DraDrivers, DriverMissing
from activities.clients.dra.dra_plugin import DraPluginError
from activities.clients.plugins.kinds import PluginRefused, register
from proto.dra.claims import Claim, ClaimAnswer, PreparedDevice
from proto.dra.v1 import api_pb2 as api
from tests.activities.clients.dra.serving import NAME, FaultyPlugin, serving_plugin

CLAIMS = (Claim("default", "a", "uid-a"), Claim("default", "b", "uid-b"))


@pytest.fixture
async def drivers() -> AsyncIterator[DraDrivers]:
    """Have a registry, which is closed at the end."""
    found = DraDrivers()
    yield found
    await found.close()


async def until(drivers: DraDrivers, holds: Callable[[], bool]) -> None:
    """Wait for a change of the registry after which something holds."""
    event = asyncio.Event()
    drivers.changed = lambda _: event.set()
    async with asyncio.timeout(20):
        while not holds():
            event.clear()
            await event.wait()


async def test_a_plugin_registers_and_prepares(tmp_path: Path, drivers: DraDrivers) -> None:
    """It is asked for all claims at once, and its connection is seen."""
    plugin = FaultyPlugin()
    async with serving_plugin(tmp_path / "d", plugin) as socket:
        registered = await register(socket, {DRA_PLUGIN: drivers})
        await until(drivers, lambda: drivers.is_usable(NAME))
        answers = await drivers.get(NAME).prepare(CLAIMS)
        undone = await drivers.get(NAME).unprepare(CLAIMS)
    assert (registered.kind, registered.name, registered.version) == (DRA_PLUGIN, NAME, "v1.DRAPlugin")
    assert plugin.told == [(True, "")]
    device = PreparedDevice(pool="pool", device="a", requests=("r",), cdi_device_ids=("t.test/c=a",))
    assert answers["uid-a"] == ClaimAnswer((device,))
    assert undone == {"uid-a": ClaimAnswer(), "uid-b": ClaimAnswer()}
    assert plugin.asked == [("NodePrepareResources", ["a", "b"]), ("NodeUnprepareResources", ["a", "b"])]


@pytest.mark.parametrize(
    ("versions", "chosen"),
    [
        pytest.param(("v1.DRAPlugin", "v1beta1.DRAPlugin"), "v1.DRAPlugin", id="the-first-that-is-known"),
        pytest.param(("v1beta1.DRAPlugin", "v1.DRAPlugin"), "v1beta1.DRAPlugin", id="in-the-plugins-order"),
        pytest.param(("v2.DRAPlugin", "v1beta1.DRAPlugin"), "v1beta1.DRAPlugin", id="what-is-unknown-is-passed-over"),
    ],
)
async def test_the_service_that_is_called(
    tmp_path: Path, drivers: DraDrivers, versions: tuple[str, ...], chosen: str
) -> None:
    """The one that validateSupportedServices chooses; both are understood."""
    async with serving_plugin(tmp_path / "d", FaultyPlugin(), versions=versions) as socket:
        assert (await register(socket, {DRA_PLUGIN: drivers})).version == chosen
        assert set(await drivers.get(NAME).prepare(CLAIMS)) == {"uid-a", "uid-b"}


@pytest.mark.parametrize(
    ("name", "versions", "told"),
    [
        pytest.param(NAME, (), "empty list of supported gRPC services", id="no-version"),
        pytest.param(
            NAME,
            ("1.0.0",),
            'none of services supported by the plugin (["1.0.0"]) are supported by the kubelet (["v1.DRAPlugin" "v1beta1.DRAPlugin"])',
            id="an-unknown-version",
        ),
        pytest.param("../../etc", ("v1.DRAPlugin",), "its name must be a domain name", id="a-name-that-is-a-path"),
        pytest.param("a" * 64, ("v1.DRAPlugin",), "its name must be a domain name", id="a-long-name"),
    ],
)
async def test_what_may_not_register_is_told_why(
    tmp_path: Path, drivers: DraDrivers, name: str, versions: tuple[str, ...], told: str
) -> None:
    """Nothing of it stays."""
    plugin = FaultyPlugin()
    async with serving_plugin(tmp_path / "d", plugin, name=name, versions=versions) as socket:
        with pytest.raises(PluginRefused):
            await register(socket, {DRA_PLUGIN: drivers})
    assert [(one, told in error) for one, error in plugin.told] == [(False, True)]
    with pytest.raises(DriverMissing, match=f"DRA driver {NAME} is not registered"):
        drivers.get(NAME)


async def test_the_newest_connected_plugin_of_a_driver_is_asked(tmp_path: Path, drivers: DraDrivers) -> None:
    """During an update two are registered; the older one is asked when the newer one is gone."""
    async with serving_plugin(tmp_path / "old", FaultyPlugin()) as old:
        await register(old, {DRA_PLUGIN: drivers})
        await until(drivers, lambda: drivers.is_usable(NAME))
        async with serving_plugin(tmp_path / "new", FaultyPlugin()) as new:
            registered = await register(new, {DRA_PLUGIN: drivers})
            with pytest.raises(PluginRefused, match="already registered for DRA driver plugin"):
                await register(new, {DRA_PLUGIN: drivers})
            await until(drivers, lambda: drivers.get(NAME).endpoint == registered.endpoint)
        await until(drivers, lambda: drivers.get(NAME).endpoint == str(tmp_path / "old" / "dra.sock"))
        registered.remove()
        registered.remove()
        assert drivers.get(NAME).endpoint == str(tmp_path / "old" / "dra.sock")


async def test_a_plugin_that_comes_again_at_its_socket_is_connected_again(tmp_path: Path, drivers: DraDrivers) -> None:
    """Its registration socket need not change."""
    async with serving_plugin(tmp_path / "d", FaultyPlugin()) as socket:
        await register(socket, {DRA_PLUGIN: drivers})
        await until(drivers, lambda: drivers.is_usable(NAME))
    await until(drivers, lambda: not drivers.is_usable(NAME))
    with pytest.raises(DraPluginError, match="code = Unavailable"):
        await drivers.get(NAME).prepare(CLAIMS)
    async with serving_plugin(tmp_path / "d", FaultyPlugin()):
        await until(drivers, lambda: drivers.is_usable(NAME))
        assert set(await drivers.get(NAME).prepare(CLAIMS)) == {"uid-a", "uid-b"}


def many_devices(_: Any) -> api.NodePrepareResourcesResponse:
    """Lie about 100,000 devices."""
    devices = [api.Device(pool_name="p", device_name=str(i)) for i in range(100_000)]
    return api.NodePrepareResourcesResponse(claims={"uid-a": api.NodePrepareResourceResponse(devices=devices)})


def long_name(_: Any) -> api.NodePrepareResourcesResponse:
    """Name a device at length."""
    devices = [api.Device(pool_name="p", device_name="d", cdi_device_ids=["x" * 100_000])]
    return api.NodePrepareResourcesResponse(claims={"uid-a": api.NodePrepareResourceResponse(devices=devices)})


def fails(_: Any) -> None:
    """Fail."""
    raise OSError(errno.EIO, "the device is on fire")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(many_devices, "more than 1000 devices", id="100000-devices"),
        pytest.param(long_name, "a name of more than 512 characters", id="a-name-of-100000-characters"),
        pytest.param(lambda _: b"\xff" * 9, "cannot be decoded", id="garbage"),
        pytest.param(lambda _: b"\x0a" + b"x" * (5 << 20), "code = ResourceExhausted", id="a-message-of-5-MiB"),
        pytest.param(fails, "code = Unknown desc = .*on fire", id="an-error"),
    ],
)
async def test_an_answer_that_cannot_be_used(
    tmp_path: Path, drivers: DraDrivers, answer: Callable[[Any], Any], message: str
) -> None:
    """It is an error of the call, and the next answer is taken."""
    plugin = FaultyPlugin()
    plugin.prepare = answer
    async with serving_plugin(tmp_path / "d", plugin) as socket:
        await register(socket, {DRA_PLUGIN: drivers})
        with pytest.raises(DraPluginError, match=message):
            await drivers.get(NAME).prepare(CLAIMS)
        assert set(await drivers.get(NAME).unprepare(CLAIMS)) == {"uid-a", "uid-b"}


async def test_a_plugin_that_hangs(tmp_path: Path, drivers: DraDrivers, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call ends by its deadline."""
    monkeypatch.setattr(dra_plugin, "CALL_SECONDS", 0.2)
    plugin = FaultyPlugin()
    plugin.hangs = True
    async with serving_plugin(tmp_path / "d", plugin) as socket:
        await register(socket, {DRA_PLUGIN: drivers})
        with pytest.raises(DraPluginError, match="code = DeadlineExceeded"):
            await drivers.get(NAME).prepare(CLAIMS)


async def test_a_call_is_counted_with_its_code(tmp_path: Path) -> None:
    """By the names that the kubelet's metrics have."""
    counted: list[tuple[str, str, str]] = []
    drivers = DraDrivers(lambda driver, method, code, _: counted.append((driver, method, code)))
    async with serving_plugin(tmp_path / "d", FaultyPlugin()) as socket:
        await register(socket, {DRA_PLUGIN: drivers})
        await drivers.get(NAME).prepare(CLAIMS)
    await drivers.close()
    assert counted == [(NAME, "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources", "OK")]
