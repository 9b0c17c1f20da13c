"""Which drivers may register, with which version, and what is the plugin told?"""

from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from activities.clients.csi_driver import CsiError, connected
from activities.clients.csi_drivers import CsiDrivers, Driver, DriverNotRegistered, DriverRefused
from activities.clients.plugins.kinds import PluginRefused, Registered
from activities.clients.plugins.kinds import register as register_plugin
from activities.clients.plugins.registration import PluginUnreachable
from activities.volumes.csi.drivers.registration import CSI_PLUGIN, CsiPlugins, highest_version
from tests.csi.orders import Order, Setup
from tests.csi.serving import serving

NAME = "dir.csi.tempolet.test"


async def register(socket: Path, drivers: CsiDrivers) -> Registered:
    """Register the driver behind a socket on a node that takes CSI drivers only."""
    return await register_plugin(socket, {CSI_PLUGIN: CsiPlugins(drivers)})


@pytest.mark.parametrize(
    ("named", "chosen"),
    [
        pytest.param(["1.0.0"], (1, 0, 0), id="the-only-one"),
        pytest.param(["v1.2.0", "1.9.0", "1.3.0"], (1, 9, 0), id="the-highest-of-several"),
        pytest.param(["2.0.0", "1.1.0"], (1, 1, 0), id="a-version-2-beside-a-version-1-is-passed-over"),
        pytest.param(["nonsense", "1.0"], (1, 0), id="what-is-no-version-is-passed-over"),
        pytest.param(["1.0", f"1.{'9' * 5000}"], (1, 0), id="a-number-of-5000-digits-is-passed-over"),
        pytest.param(["1.0", f"1.2.{'9' * 5000}.3"], (1, 0), id="also-after-others"),
        pytest.param(["0.3.0"], None, id="csi-0-is-no-longer-spoken"),
        pytest.param(["2.0.0"], None, id="csi-2-is-not-spoken-yet"),
        pytest.param(["1"], None, id="a-major-number-alone-is-no-version"),
        pytest.param([], None, id="no-version-at-all"),
    ],
)
def test_the_version_that_is_spoken(named: list[str], chosen: tuple[int, ...] | None) -> None:
    """The highest 1.x of the driver's versions (component-helpers version.go)."""
    assert highest_version(named) == chosen


async def test_a_driver_registers_and_is_told(tmp_path: Path) -> None:
    """Its endpoint and its answer about this node are stored."""
    drivers = CsiDrivers()
    async with serving(tmp_path / "d", tmp_path / "reg.sock") as folder:
        registered = await register(tmp_path / "reg.sock", drivers)
    assert registered.name == NAME
    assert registered.endpoint == str(tmp_path / "d" / "csi.sock")
    driver = await drivers.get(NAME)
    assert (driver.endpoint, driver.node_id, driver.max_volumes) == (registered.endpoint, "node-of-the-test", 7)
    assert folder.calls("NotifyRegistrationStatus") == [
        {"call": "NotifyRegistrationStatus", "registered": True, "error": ""}
    ]


@pytest.mark.parametrize(
    ("setup", "known", "told"),
    [
        pytest.param(
            Setup(kind="DRAPlugin"),
            None,
            "no handler registered for plugin type: DRAPlugin",
            id="a-plugin-of-dynamic-resources",
        ),
        pytest.param(
            Setup(kind="DevicePlugin"),
            None,
            "no handler registered for plugin type: DevicePlugin",
            id="a-device-plugin",
        ),
        pytest.param(Setup(versions=("0.3.0",)), None, "this node speaks CSI v1.x", id="a-driver-too-old"),
        pytest.param(Setup(versions=()), None, "the driver names none", id="a-driver-without-a-version"),
        pytest.param(Setup(name="../../etc"), None, "its name must be a domain name", id="a-name-that-is-a-path"),
        pytest.param(
            Setup(),
            Driver(NAME, "/elsewhere", (1, 0, 0)),
            "Another driver with the same name is already registered with a higher supported version",
            id="a-second-driver-of-that-name",
        ),
    ],
)
async def test_what_can_t_register_is_told_why(tmp_path: Path, setup: Setup, known: Driver | None, told: str) -> None:
    """The plugin gets the reason, and the registered driver stays."""
    drivers = CsiDrivers()
    if known:
        await drivers.add(known)
    async with serving(tmp_path / "d", tmp_path / "reg.sock", setup) as folder:
        with pytest.raises(PluginRefused, match=told):
            await register(tmp_path / "reg.sock", drivers)
    assert [(one["registered"], told in one["error"]) for one in folder.calls("NotifyRegistrationStatus")] == [
        (False, True)
    ]
    assert drivers.find(setup.name) is known


async def test_a_driver_of_a_higher_version_takes_the_place(tmp_path: Path) -> None:
    """As in the kubelet: the newer one is called from then on."""
    drivers = CsiDrivers()
    await drivers.add(Driver(NAME, "/elsewhere", (0, 9)))
    async with serving(tmp_path / "d", tmp_path / "reg.sock"):
        await register(tmp_path / "reg.sock", drivers)
    assert (await drivers.get(NAME)).endpoint == str(tmp_path / "d" / "csi.sock")


async def test_a_driver_that_can_t_say_what_this_node_is_is_not_registered(tmp_path: Path) -> None:
    """If NodeGetInfo fails, the driver cannot work here; the plugin is told so."""
    drivers = CsiDrivers()
    async with serving(tmp_path / "d", tmp_path / "reg.sock") as folder:
        folder.order("NodeGetInfo", Order(code="INTERNAL", details="no cloud here"))
        with pytest.raises(PluginRefused, match="rpc error: code = Internal desc = no cloud here"):
            await register(tmp_path / "reg.sock", drivers)
    assert drivers.find(NAME) is None


async def test_a_driver_that_cannot_be_in_the_csi_node_is_not_registered(tmp_path: Path) -> None:
    """The plugin is told why, and it is removed from the CSINode again; it is there while the answer is awaited, as under a kubelet."""
    drivers, heard = CsiDrivers(), list[bool]()
    drivers.on_change(lambda _, driver: heard.append(driver is not None))

    async def refuse(driver: Driver) -> None:
        assert drivers.find(NAME) is driver
        raise DriverRefused("driverNodeID must not be empty")

    drivers.listed_by(refuse)
    told = "RegisterPlugin error -- plugin registration failed with err: driverNodeID must not be empty"
    async with serving(tmp_path / "d", tmp_path / "reg.sock") as folder:
        with pytest.raises(PluginRefused, match=told):
            await register(tmp_path / "reg.sock", drivers)
    assert folder.calls("NotifyRegistrationStatus") == [
        {"call": "NotifyRegistrationStatus", "registered": False, "error": told}
    ]
    assert heard == [True, False]
    assert drivers.find(NAME) is None


async def test_a_socket_that_nobody_serves_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The socket of a dead driver is no driver."""
    monkeypatch.setattr("activities.clients.plugins.registration._CONNECT_SECONDS", 0.2)
    with pytest.raises(PluginUnreachable, match="nothing answers at"):
        await register(tmp_path / "gone.sock", CsiDrivers())


async def test_a_driver_is_waited_for_a_moment_and_then_missed_in_the_kubelets_words() -> None:
    """So that a worker and its drivers may start at the same time."""
    drivers = CsiDrivers()
    with pytest.raises(
        DriverNotRegistered, match=f"driver name {NAME} not found in the list of registered CSI drivers"
    ):
        await drivers.get(NAME, timedelta(milliseconds=10))


async def test_the_end_of_an_old_registration_leaves_the_new_one() -> None:
    """A restarted driver registers again before its old socket is removed."""
    drivers = CsiDrivers()
    old, new = Driver(NAME, "/socket"), Driver(NAME, "/socket")
    await drivers.add(old)
    await drivers.add(new)
    drivers.remove(old)
    assert drivers.find(NAME) is new


async def test_an_answer_that_cannot_be_decoded_is_an_error(tmp_path: Path) -> None:
    """GRPC itself logs it, and gives none."""

    async def garbage(_request: bytes, _context: Any) -> bytes:
        return b"\xff" * 9

    server = grpc.aio.server()
    for service, call in (("pluginregistration.Registration", "GetInfo"), ("csi.v1.Node", "NodeGetInfo")):
        handlers = {call: grpc.unary_unary_rpc_method_handler(garbage)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    server.add_insecure_port(f"unix://{tmp_path}/a.sock")
    await server.start()
    try:
        with pytest.raises(PluginUnreachable, match="cannot be decoded"):
            await register(tmp_path / "a.sock", CsiDrivers())
        async with connected(f"{tmp_path}/a.sock") as node:
            with pytest.raises(CsiError, match="cannot be decoded"):
                await node.info()
    finally:
        await server.stop(None)
