"""Are the reports of devices' health taken from plugins that serve them, and what becomes of streams that end, lie, flood or hang?"""

import asyncio
import errno
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from activities.clients.dra import dra_drivers, health_reports
from activities.clients.dra.dra_drivers import DRA_PLUGIN, DraDrivers
from activities.clients.dra.health_reports import LONGEST_MESSAGE, LONGEST_TIMEOUT, MOST_DEVICES, read_report
from activities.clients.plugins.kinds import register
from proto.dra.claims import Claim
from proto.dra.device_health import HEALTHY, UNHEALTHY, UNKNOWN, DeviceHealth, DeviceKey
from proto.drahealth.v1alpha1 import api_pb2 as api
from tests.activities.clients.dra.serving import NAME, FaultyPlugin, Report, report, serving_plugin
from tests.patience import PATIENCE

CLAIMS = (Claim("default", "a", "uid-a"),)
A = {("pool", "a"): DeviceHealth(HEALTHY)}


class Reader:
    """Takes the reports."""

    def __init__(self) -> None:
        self.taken: asyncio.Queue[tuple[object, Mapping[DeviceKey, DeviceHealth] | None]] = asyncio.Queue()

    def take(self, driver: str, plugin: object, devices: Mapping[DeviceKey, DeviceHealth]) -> None:
        """Take one."""
        assert driver == NAME
        self.taken.put_nowait((plugin, devices))

    def forget(self, driver: str, plugin: object) -> None:
        """Take that a stream has ended."""
        assert driver == NAME
        self.taken.put_nowait((plugin, None))

    async def next(self) -> Mapping[DeviceKey, DeviceHealth] | None:
        """Return the next report; None for the end of a stream."""
        async with asyncio.timeout(PATIENCE):
            return (await self.taken.get())[1]


@pytest.fixture
async def drivers(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DraDrivers]:
    """Have a registry that asks again at once."""
    monkeypatch.setattr(dra_drivers, "HEALTH_PAUSE", 0.01)
    found = DraDrivers()
    found.health = Reader()
    yield found
    await found.close()


@pytest.fixture
def reader(drivers: DraDrivers) -> Reader:
    """Return what takes the reports."""
    assert isinstance(drivers.health, Reader)
    return drivers.health


def saying(*reports: Report | bytes, then: Callable[[], Any] | None = None) -> Callable[[], AsyncIterator[Any]]:
    """Report so, and then do something, or wait for ever."""

    async def health() -> AsyncIterator[Any]:
        for one in reports:
            yield one
        if then is None:
            await asyncio.Event().wait()
        elif (more := then()) is not None:
            yield more

    return health


def fail() -> None:
    """Fail."""
    raise OSError(errno.EIO, "the device is on fire")


async def test_reports_come_over_the_plugins_one_connection(
    tmp_path: Path, drivers: DraDrivers, reader: Reader
) -> None:
    """And calls beside them."""
    plugin = FaultyPlugin()
    plugin.health = saying(report(a=True), report(a=False, timeout=5, message="hot"))
    async with serving_plugin(tmp_path / "d", plugin) as socket:
        registered = await register(socket, {DRA_PLUGIN: drivers})
        assert await reader.next() == A
        assert await reader.next() == {("pool", "a"): DeviceHealth(UNHEALTHY, "hot", 5)}
        assert set(await drivers.get(NAME).prepare(CLAIMS)) == {"uid-a"}
        registered.remove()
        assert await reader.next() is None
        assert plugin.streams == 1


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(saying(report(a=True), then=lambda: None), id="one-that-ends"),
        pytest.param(saying(report(a=True), then=fail), id="one-that-fails"),
        pytest.param(saying(report(a=True), b"\xff" * 9), id="garbage"),
        pytest.param(saying(report(a=True), b"\x0a" + b"x" * (5 << 20)), id="a-message-of-5-MiB"),
        pytest.param(saying(report(a=True), report(pool="p" * 100_000, a=True)), id="a-long-name"),
        pytest.param(saying(report(a=True), report(many=MOST_DEVICES + 1)), id="too-many-devices"),
    ],
)
async def test_a_stream_that_cannot_be_used_is_opened_again(
    tmp_path: Path, drivers: DraDrivers, reader: Reader, bad: Callable[[], AsyncIterator[Any]]
) -> None:
    """What it said is forgotten until then; the driver's calls go on."""
    plugin = FaultyPlugin()
    plugin.health = bad
    async with serving_plugin(tmp_path / "d", plugin) as socket:
        await register(socket, {DRA_PLUGIN: drivers})
        assert await reader.next() == A
        assert await reader.next() is None
        plugin.health = saying(report(b=True))
        while (found := await reader.next()) is None or found == A:
            pass  # it was asked again before the test had changed its mind
        assert found == {("pool", "b"): DeviceHealth(HEALTHY)}
        assert set(await drivers.get(NAME).prepare(CLAIMS)) == {"uid-a"}


async def test_a_driver_without_the_service_is_not_asked_again_and_again(
    tmp_path: Path, drivers: DraDrivers, reader: Reader
) -> None:
    """Only when it has connected again, for it may be a newer one."""
    plugin = FaultyPlugin()
    async with serving_plugin(tmp_path / "d", plugin) as socket:
        await register(socket, {DRA_PLUGIN: drivers})
        assert await reader.next() is None
        for _ in range(3):
            await drivers.get(NAME).prepare(CLAIMS)
        assert plugin.streams == 1
    plugin.health = saying(report(a=True))
    async with serving_plugin(tmp_path / "d", plugin):
        while await reader.next() != A:
            pass


async def test_a_plugin_whose_connection_is_lost_is_watched_again(
    tmp_path: Path, drivers: DraDrivers, reader: Reader
) -> None:
    """Its registration socket need not change."""
    plugin = FaultyPlugin()
    plugin.health = saying(report(a=True))
    async with serving_plugin(tmp_path / "d", plugin) as socket:
        await register(socket, {DRA_PLUGIN: drivers})
        assert await reader.next() == A
    assert await reader.next() is None
    async with serving_plugin(tmp_path / "d", plugin):
        while await reader.next() != A:
            pass


async def test_a_flood_waits_in_the_plugins_socket(tmp_path: Path, drivers: DraDrivers, reader: Reader) -> None:
    """Nobody else is held up: calls are answered meanwhile, and the number of reports is that of the pauses."""
    sent = 0

    async def flood() -> AsyncIterator[Report]:
        nonlocal sent
        while True:
            sent += 1
            yield report(a=True, message="x" * 2_000)

    plugin = FaultyPlugin()
    plugin.health = flood
    async with serving_plugin(tmp_path / "d", plugin) as socket:
        await register(socket, {DRA_PLUGIN: drivers})
        for _ in range(3):
            await reader.next()
            await drivers.get(NAME).prepare(CLAIMS)
        assert reader.taken.qsize() <= 3
        assert sent < 100_000  # gRPC's window is full long before


async def test_a_reader_that_refuses_a_report_ends_the_stream_alone(tmp_path: Path, drivers: DraDrivers) -> None:
    """As one that exceeds what all drivers together may report."""
    refused = asyncio.Event()

    class Refusing(Reader):
        def take(self, driver: str, plugin: object, devices: Mapping[DeviceKey, DeviceHealth]) -> None:  # noqa: ARG002 - the Protocol's
            refused.set()
            raise ValueError("too many")

    drivers.health = reader = Refusing()
    plugin = FaultyPlugin()
    plugin.health = saying(report(a=True))
    async with serving_plugin(tmp_path / "d", plugin) as socket:
        await register(socket, {DRA_PLUGIN: drivers})
        async with asyncio.timeout(PATIENCE):
            await refused.wait()
        assert await reader.next() is None
        assert set(await drivers.get(NAME).prepare(CLAIMS)) == {"uid-a"}


async def test_nobody_asks_without_the_gate(tmp_path: Path) -> None:
    """Then no stream is opened."""
    plugin, drivers = FaultyPlugin(), DraDrivers()
    async with serving_plugin(tmp_path / "d", plugin) as socket:
        await register(socket, {DRA_PLUGIN: drivers})
        await drivers.get(NAME).prepare(CLAIMS)
        assert plugin.streams == 0
        await drivers.close()


def entry(health: Any = 1, timeout: int = 0, message: str = "") -> list[api.DeviceHealth]:
    """Report one device."""
    device = api.DeviceIdentifier(pool_name="pool", device_name="a")
    return [
        api.DeviceHealth(
            device=device, health=health, health_check_timeout_seconds=timeout, message=message, last_updated_time=-1
        )
    ]


@pytest.mark.parametrize(
    ("said", "read"),
    [
        pytest.param(entry(0), DeviceHealth(UNKNOWN), id="unknown"),
        pytest.param(entry(1), DeviceHealth(HEALTHY), id="healthy"),
        pytest.param(entry(2), DeviceHealth(UNHEALTHY), id="unhealthy"),
        pytest.param(entry(77), DeviceHealth(UNKNOWN), id="a-health-of-the-future"),
        pytest.param(entry(timeout=90), DeviceHealth(HEALTHY, timeout=90), id="its-own-timeout"),
        pytest.param(entry(timeout=-7), DeviceHealth(HEALTHY), id="a-negative-timeout"),
        pytest.param(entry(timeout=2**63 - 1), DeviceHealth(HEALTHY, timeout=LONGEST_TIMEOUT), id="for-ever"),
        pytest.param(entry(1) + entry(2), DeviceHealth(UNHEALTHY), id="of-two-entries-the-last"),
        pytest.param(entry(message="x" * 1024), DeviceHealth(HEALTHY, "x" * 1024), id="a-message-that-fits"),
        pytest.param(entry(message="x" * 1025), DeviceHealth(HEALTHY, "x" * 1021 + "..."), id="a-long-message"),
        pytest.param(entry(message="ä" * 1024), DeviceHealth(HEALTHY, "ä" * 510 + "..."), id="no-half-characters"),
    ],
)
def test_how_a_report_is_read(said: list[api.DeviceHealth], read: DeviceHealth) -> None:
    """By buildDeviceHealth; the plugin's own clock is not asked."""
    assert read_report(said) == {("pool", "a"): read}
    assert len(read.message.encode()) <= LONGEST_MESSAGE


def test_as_many_devices_as_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no more."""
    monkeypatch.setattr(health_reports, "MOST_DEVICES", 2)
    assert len(read_report(report(a=True, b=True).devices)) == 2
    with pytest.raises(health_reports.ReportRefused, match="more than 2 devices"):
        read_report(report(a=True, b=True, c=True).devices)
