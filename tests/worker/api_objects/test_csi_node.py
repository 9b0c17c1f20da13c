"""Does the CSINode list this node's drivers, also beside one that it cannot list, and after its Node was deleted?"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from activities.clients.api_server.api_server import ApiAway, ApiRefused, ApiServer, Content, Json
from activities.clients.csi_drivers import CsiDrivers, Driver, DriverRefused
from tests.patience import PATIENCE
from worker.api_objects import csi_node
from worker.api_objects.csi_node import CsiNodeKeeper
from worker.api_objects.csi_node_objects import NODE_ID

DISK = Driver("disk", "sock", node_id="n-1", topology={"rack": "7"})
OTHER = Driver("other", "sock", node_id="n-2")
BY_SERVER = Driver("bad", "sock", node_id="of-the-server")
"""One that the server refuses."""
NODE, CSI_NODE = "/api/v1/nodes/n1", "/apis/storage.k8s.io/v1/csinodes/n1"


class Server(ApiServer):
    """A server with one Node and its CSINode."""

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.written = asyncio.Event()
        self.asked: list[str] = []
        self.away = False
        self.forbidden = False

    def register(self, uid: str) -> None:
        """Replace the Node by a new one, and drop the rest."""
        self.objects = {NODE: {"metadata": {"name": "n1", "uid": uid}}}
        self.written.clear()

    async def call(self, method: str, path: str, *, content: Content | None = None, **_: Any) -> Json:
        """Answer one call."""
        self.asked.append(f"{method} {path}")
        if self.away:
            raise ApiAway("away")
        body = content.body if content else {}
        if self.forbidden and method != "GET":
            raise ApiRefused(403, "Forbidden", "not yours")
        if any(one["nodeID"] == BY_SERVER.node_id for one in body.get("spec", {}).get("drivers", ())):
            raise ApiRefused(422, "Invalid", "spec.drivers[1].nodeID: Invalid value")
        if method == "POST":
            self.objects[CSI_NODE] = body
            self.written.set()
        elif path not in self.objects:
            raise ApiRefused(404, "NotFound", path)
        elif method == "PATCH":
            metadata = self.objects[path]["metadata"]
            metadata |= {field: metadata.get(field, {}) | changed for field, changed in body["metadata"].items()}
        elif method == "PUT":
            self.objects[path] = body
            self.written.set()
        return self.objects[path if method != "POST" else CSI_NODE]

    def listed(self) -> list[str]:
        """Return the drivers in the CSINode."""
        return sorted(one["name"] for one in self.objects[CSI_NODE]["spec"]["drivers"])


async def while_kept(server: Server, drivers: CsiDrivers, work: Callable[[], Awaitable[None]]) -> None:
    """Run something while the CSINode is kept in sync, within ten seconds."""
    await while_running(CsiNodeKeeper(server, "n1", drivers), work)


async def while_running(keeper: CsiNodeKeeper, work: Callable[[], Awaitable[None]]) -> None:
    """Run something while a keeper runs, within ten seconds."""
    keeping = asyncio.create_task(keeper.run())
    try:
        async with asyncio.timeout(PATIENCE):
            await work()
    finally:
        keeping.cancel()
        with suppress(asyncio.CancelledError):
            await keeping


async def test_a_node_that_was_made_anew_has_its_drivers_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """`kubectl delete node` deletes the CSINode too; without it no volume of a driver is attached here."""
    monkeypatch.setattr(csi_node, "LOOK", timedelta(milliseconds=10))
    server, drivers = Server(), CsiDrivers()
    server.register("u1")
    await drivers.add(DISK)

    async def delete() -> None:
        await server.written.wait()
        server.register("u2")
        await server.written.wait()

    await while_kept(server, drivers, delete)
    found = server.objects[CSI_NODE]
    assert found["metadata"]["ownerReferences"][0]["uid"] == "u2"
    assert found["spec"]["drivers"] == [{"name": "disk", "nodeID": "n-1", "topologyKeys": ["rack"]}]
    metadata = server.objects[NODE]["metadata"]
    assert (metadata["annotations"], metadata["labels"]) == ({NODE_ID: '{"disk":"n-1"}'}, {"rack": "7"})


async def test_a_driver_that_registers_again_while_it_is_written_is_no_reason_to_hurry() -> None:
    """A repeated change is written once, and then there are no requests until something changes."""
    server, drivers = Server(), CsiDrivers()
    server.register("u1")
    await drivers.add(DISK)

    async def again() -> None:
        await server.written.wait()
        await drivers.add(DISK)
        for _ in range(100):
            await asyncio.sleep(0)
        asked = len(server.asked)
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(server.asked) == asked

    await while_kept(server, drivers, again)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        pytest.param(
            Driver("bad", "sock", node_id="n", topology={"zone": "b"}),
            'detected topology value collision: driver reported "zone":"b" but existing label is "zone":"a"',
            id="a-topology-that-contradicts-the-node",
        ),
        pytest.param(
            Driver("bad", "sock", node_id="n", topology={"rack": "8"}),
            'detected topology value collision: driver reported "rack":"8" but existing label is "rack":"7"',
            id="a-topology-that-contradicts-another-driver",
        ),
        pytest.param(
            Driver("bad", "sock", node_id="n", topology={"zone": "a b/c!"}),
            "a valid label must be",
            id="no-label-value",
        ),
        pytest.param(
            Driver("bad", "sock", node_id="n", topology={"bad key!!": "x"}),
            "name part must consist of",
            id="no-label-key",
        ),
        pytest.param(Driver("bad", "sock"), "driverNodeID must not be empty", id="no-id"),
        pytest.param(Driver("bad", "sock", node_id="n" * 257), "must be 256 characters or less", id="an-id-too-long"),
        pytest.param(BY_SERVER, "spec.drivers\\[1\\].nodeID: Invalid value", id="one-that-the-server-refuses"),
    ],
)
async def test_a_driver_that_cannot_be_listed_keeps_no_other_out(bad: Driver, why: str) -> None:
    """It is told why, as by a kubelet (csi_plugin.go RegisterPlugin); others come and go meanwhile."""
    server, drivers = Server(), CsiDrivers()
    server.register("u1")
    server.objects[NODE]["metadata"]["labels"] = {"zone": "a"}
    await drivers.add(DISK)
    await drivers.add(bad)

    async def come_and_go() -> None:
        with pytest.raises(DriverRefused, match=why):
            await drivers.listed(bad)
        await drivers.listed(DISK)
        assert server.listed() == ["disk"]
        await drivers.add(OTHER)
        await drivers.listed(OTHER)
        assert server.listed() == ["disk", "other"]
        drivers.remove(DISK)
        while server.listed() != ["other"]:
            server.written.clear()
            await server.written.wait()

    await while_kept(server, drivers, come_and_go)


async def test_a_refused_driver_is_listed_as_soon_as_that_is_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    """An administrator may have removed the label that it contradicts."""
    monkeypatch.setattr(csi_node, "FIRST_PAUSE", 0.01)
    server, drivers = Server(), CsiDrivers()
    server.register("u1")
    server.objects[NODE]["metadata"]["labels"] = {"rack": "8"}
    await drivers.add(DISK)

    async def mend() -> None:
        with pytest.raises(DriverRefused, match="topology value collision"):
            await drivers.listed(DISK)
        server.written.clear()
        server.objects[NODE]["metadata"]["labels"] = {}
        await server.written.wait()
        await drivers.listed(DISK)

    await while_kept(server, drivers, mend)
    assert server.listed() == ["disk"]


async def test_who_registers_does_not_wait_for_a_server_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attached volumes can be mounted meanwhile; but what says something wrong is refused at once."""
    monkeypatch.setattr(csi_node, "ANSWERS_WITHIN", timedelta(hours=1))
    server, drivers = Server(), CsiDrivers()
    server.register("u1")
    server.away = True
    bad = Driver("bad", "sock")
    await drivers.add(DISK)
    await drivers.add(bad)

    async def register() -> None:
        await drivers.listed(DISK)
        with pytest.raises(DriverRefused, match="driverNodeID must not be empty"):
            await drivers.listed(bad)
        server.away = False
        await server.written.wait()

    await while_kept(server, drivers, register)
    assert server.listed() == ["disk"]


async def test_a_refusal_that_concerns_no_single_driver_ends_no_registration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as one of a node without rights; who registers waits a moment, in case it passes."""
    monkeypatch.setattr(csi_node, "ANSWERS_WITHIN", timedelta(seconds=0.05))
    server, drivers = Server(), CsiDrivers()
    server.register("u1")
    server.forbidden = True
    await drivers.add(Driver("disk", "sock", node_id="n-1"))

    async def register() -> None:
        driver = drivers.find("disk")
        assert driver is not None
        await drivers.listed(driver)
        server.forbidden = False
        await server.written.wait()

    await while_kept(server, drivers, register)
    assert server.listed() == ["disk"]


@pytest.mark.parametrize("away", [pytest.param(True, id="the-server-was-away"), pytest.param(False, id="it-answered")])
async def test_a_refusal_after_the_registration_is_an_event_of_the_node(away: bool) -> None:
    """Who has registered cannot be told any more; who is told at once needs no event."""
    server, drivers, told = Server(), CsiDrivers(), list[tuple[str, str]]()
    server.register("u1")
    server.away = away
    keeper = CsiNodeKeeper(server, "n1", drivers, lambda *event: told.append(event))

    async def register() -> None:
        await drivers.add(BY_SERVER)
        if not away:
            with pytest.raises(DriverRefused):
                await drivers.listed(BY_SERVER)
            return
        await drivers.listed(BY_SERVER)
        server.away = False
        while not told:  # noqa: ASYNC110 - the event is a call
            await asyncio.sleep(0.01)

    await while_running(keeper, register)
    why = "error updating CSINode object with CSI driver node info: spec.drivers[1].nodeID: Invalid value"
    event = ("CSIDriverNotListed", f"CSI driver bad is registered, but cannot be in the CSINode: {why}")
    assert told == ([event] if away else [])
