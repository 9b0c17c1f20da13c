"""Are the registered plugins those with a socket in plugins_registry while the worker runs?"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from activities.clients.csi_drivers import CsiDrivers
from activities.volumes.csi.drivers.registration import CSI_PLUGIN, CsiPlugins
from tests.csi.orders import DriverFolder, Order, Setup
from tests.csi.serving import serving
from worker.host import plugin_watch
from worker.host.plugin_watch import watching_plugins

NAME = "dir.csi.tempolet.test"


class Seen(CsiDrivers):
    """The registry, which says when it changes."""

    def __init__(self) -> None:
        super().__init__()
        self.gone = asyncio.Event()

    def remove(self, driver: object) -> None:
        """Say it."""
        super().remove(driver)  # type: ignore[arg-type]  # handed on as it came
        self.gone.set()


@pytest.fixture
async def drivers(tmp_path: Path) -> AsyncIterator[Seen]:
    """Follow the folder of this test."""
    seen = Seen()
    async with watching_plugins(tmp_path, lambda: {CSI_PLUGIN: CsiPlugins(seen)}):
        yield seen
    assert seen.find(NAME) is None


@pytest.fixture
def registry(tmp_path: Path) -> Path:
    """Name the folder that is followed."""
    folder = tmp_path / "plugins_registry"
    folder.mkdir()
    return folder


async def test_what_lies_there_before_the_worker_is_registered(tmp_path: Path, registry: Path) -> None:
    """A worker that was restarted knows its drivers again from their sockets."""
    drivers = Seen()
    async with serving(tmp_path / "d", registry / "reg.sock"):
        async with watching_plugins(tmp_path, lambda: {CSI_PLUGIN: CsiPlugins(drivers)}):
            assert (await drivers.get(NAME)).name == NAME
        assert drivers.find(NAME) is None


@pytest.mark.usefixtures("registry")
async def test_a_driver_comes_goes_and_comes_again(tmp_path: Path, drivers: Seen) -> None:
    """Registered with its socket, deregistered with it, registered again."""
    for round_ in range(2):
        socket = tmp_path / "plugins_registry" / "reg.sock"
        async with serving(tmp_path / f"d{round_}", socket):
            assert (await drivers.get(NAME)).endpoint == str(tmp_path / f"d{round_}" / "csi.sock")
            drivers.gone.clear()
        await asyncio.wait_for(drivers.gone.wait(), 20)
        assert drivers.find(NAME) is None


async def test_a_socket_that_is_made_anew_is_registered_again(tmp_path: Path, registry: Path, drivers: Seen) -> None:
    """A driver's restart: the same path, another socket."""
    async with serving(tmp_path / "old", registry / "reg.sock"):
        await drivers.get(NAME)
        drivers.gone.clear()
        with contextlib.suppress(FileNotFoundError):
            (registry / "reg.sock").unlink()
        async with serving(tmp_path / "new", registry / "reg.sock"):
            await asyncio.wait_for(drivers.gone.wait(), 20)
            assert (await drivers.get(NAME)).endpoint == str(tmp_path / "new" / "csi.sock")


async def test_a_socket_in_a_folder_of_its_own(tmp_path: Path, registry: Path, drivers: Seen) -> None:
    """The kubelet looks below, too."""
    (registry / "mine").mkdir()
    async with serving(tmp_path / "d", registry / "mine" / "reg.sock"):
        assert await drivers.get(NAME)


@pytest.mark.parametrize("name", [pytest.param(".reg.sock", id="hidden"), pytest.param("reg.txt", id="no-socket")])
async def test_what_is_passed_over(tmp_path: Path, registry: Path, drivers: Seen, name: str) -> None:
    """Hidden sockets and regular files are ignored."""
    if name.endswith("txt"):
        (registry / name).touch()
        assert plugin_watch.sockets_below(registry)[0] == {}
        return
    async with (
        serving(tmp_path / "hidden", registry / name, Setup(name="hidden.test")),
        serving(tmp_path / "d", registry / "reg.sock"),
    ):
        await drivers.get(NAME)
        assert drivers.find("hidden.test") is None


async def test_a_plugin_that_hangs_holds_up_no_other(tmp_path: Path, registry: Path, drivers: Seen) -> None:
    """Each is registered by a task of its own."""

    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    server = await asyncio.start_unix_server(silent, registry / "a-hangs.sock")
    async with serving(tmp_path / "d", registry / "z.sock"):
        assert await drivers.get(NAME)
    server.close()


async def test_a_plugin_that_failed_is_tried_again(
    tmp_path: Path, registry: Path, drivers: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver whose cloud is slow to know the node registers as soon as it does."""
    monkeypatch.setattr(plugin_watch, "_FIRST_PAUSE", 0.01)
    folder = DriverFolder(tmp_path / "d")
    folder.setup(Setup())
    folder.order("NodeGetInfo", Order(times=2, code="UNAVAILABLE", details="not yet"))
    async with serving(tmp_path / "d", registry / "reg.sock"):
        assert await drivers.get(NAME)
    told = [one["registered"] for one in folder.calls("NotifyRegistrationStatus")]
    assert told[:2] == [False, False]
