"""Do device plugins come and go as the kubelet takes them, and what becomes of those that lie or hang?"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import grpc
import grpc.aio
import pytest

from activities.clients.device_plugins import device_plugin
from activities.clients.device_plugins.device_plugin import DevicePluginError
from proto.deviceplugin.v1beta1 import api_pb2 as api
from proto.deviceplugin.v1beta1 import api_pb2_grpc
from tests.worker.devices.lying_plugin import Faults, devices, serving
from worker.devices import plugins
from worker.devices.counts import Uncounted
from worker.devices.plugins import MOST_RESOURCES, DevicePlugins, RegistrationRefused
from worker.devices.registration import FOLDER, serve_registration
from workflows.decide.devices.inventory import Listed

GPU, OTHER = "example.com/gpu", "example.com/other"
EVERYWHERE = api.TopologyInfo(nodes=[api.NUMANode(ID=number) for number in range(60)])
TWO = Listed({"a": (), "b": ()}, frozenset("ab"))


class Counted(Uncounted):
    """Remembers registrations."""

    def __init__(self) -> None:
        self.registrations: list[str] = []

    def registered(self, resource: str) -> None:
        """Remember one."""
        self.registrations.append(resource)


class Node:
    """The plugins of a node, whose changes can be awaited."""

    def __init__(self, grace: timedelta) -> None:
        self._event = asyncio.Event()
        self.plugins = DevicePlugins(self._event.set, grace)

    async def until(self, resource: str, wanted: Listed | None) -> None:
        """Wait until a resource is listed so."""
        await self.while_changing(lambda: self.plugins.inventory.get(resource) != wanted)

    async def while_changing(self, waits: Callable[[], bool]) -> None:
        """Wait while what is listed is still so."""
        async with asyncio.timeout(20):
            while waits():
                await self._event.wait()
                self._event.clear()


@asynccontextmanager
async def node(grace: timedelta = timedelta(minutes=5)) -> AsyncIterator[Node]:
    """Run the plugins of a node."""
    found = Node(grace)
    try:
        yield found
    finally:
        await found.plugins.close()


async def test_a_plugin_comes_and_goes(tmp_path: Path) -> None:
    """Its devices are unhealthy at once, and its resource is gone after the grace."""
    async with node(timedelta(seconds=0.3)) as here:
        async with serving(tmp_path / "p", Faults(lists=[devices("a", "b")])) as plugin:
            await here.plugins.register(GPU, str(tmp_path / "p"), ["v1beta1"])
            await here.until(GPU, TWO)
            plugin.more.put_nowait([*devices("a"), *devices("b", health="Unhealthy")])
            ill = Listed({"a": (), "b": ()}, frozenset("a"), frozenset("b"))
            await here.until(GPU, ill)
        await here.until(GPU, ill.disconnected())
        await here.until(GPU, None)
        assert here.plugins.removed == {GPU}


async def test_one_that_comes_again_in_time_stays(tmp_path: Path) -> None:
    """Also one that is known from before the start."""
    async with node() as here:
        here.plugins.known_before([GPU])
        assert not here.plugins.inventory[GPU].registered
        for name in ("one", "two"):
            async with serving(tmp_path / name, Faults(lists=[devices("a", "b")])):
                await here.plugins.register(GPU, str(tmp_path / name), ["v1beta1"])
                await here.until(GPU, TWO)
        assert await here.plugins.is_registered(GPU, timedelta())


@pytest.mark.parametrize("known", [(), (GPU,)], ids=["new", "known-before"])
async def test_one_that_registers_and_lists_nothing(tmp_path: Path, known: tuple[str, ...]) -> None:
    """Nobody waits for it longer than for one that does not come; when it lists some, they count."""
    async with node(timedelta(seconds=0.3)) as here, serving(tmp_path / "p", Faults()) as plugin:
        here.plugins.known_before(known)
        await here.plugins.register(GPU, str(tmp_path / "p"), ["v1beta1"])
        await here.until(GPU, Listed())
        plugin.more.put_nowait(devices("a", "b"))
        await here.until(GPU, TWO)


async def test_one_that_connects_while_its_resource_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not lost, though it took longer than the grace."""
    asked, removed = asyncio.Event(), asyncio.Event()
    options = plugins._options

    async def slow(plugin: device_plugin.DevicePlugin) -> object:
        asked.set()
        await removed.wait()
        return await options(plugin)

    monkeypatch.setattr(plugins, "_options", slow)
    async with (
        node(timedelta(seconds=0.1)) as here,
        serving(tmp_path / "p", Faults(lists=[devices("a", "b")])),
    ):
        here.plugins.known_before([GPU])
        registers = asyncio.create_task(here.plugins.register(GPU, str(tmp_path / "p"), ["v1beta1"]))
        await here.until(GPU, None)
        await asked.wait()
        removed.set()
        await registers
        await here.until(GPU, TWO)
        assert not here.plugins.removed


async def test_one_that_is_dropped_and_registers_again_and_again(tmp_path: Path) -> None:
    """Nobody waits for it longer either."""

    async def register(here: Node) -> None:
        while True:
            await here.plugins.register(GPU, str(tmp_path / "p"), ["v1beta1"])
            if (endpoint := here.plugins._resources[GPU].endpoint) and endpoint.task:
                await asyncio.wait([endpoint.task])

    async with node(timedelta(seconds=0.5)) as here, serving(tmp_path / "p", Faults(lists=[devices("x" * 300)])):
        here.plugins.known_before([GPU])
        registers = asyncio.create_task(register(here))
        await here.while_changing(lambda: not here.plugins.removed and not here.plugins.inventory[GPU].registered)
        registers.cancel()
        await asyncio.gather(registers, return_exceptions=True)


async def test_a_second_registration_replaces_the_first_without_a_gap(tmp_path: Path) -> None:
    """As of a plugin that registers each second."""
    async with node() as here, serving(tmp_path / "p", Faults(lists=[devices("a", "b")])) as plugin:
        await here.plugins.register(GPU, str(tmp_path / "p"), ["v1beta1"])
        await here.until(GPU, TWO)
        for _ in range(20):
            await here.plugins.register(GPU, str(tmp_path / "p"), ["v1beta1"])
            assert here.plugins.inventory == {GPU: TWO}
        assert len([name for name, _ in plugin.calls if name == "GetDevicePluginOptions"]) == 21


async def test_a_plugin_that_was_not_reached_yet_has_no_resource(tmp_path: Path) -> None:
    """Else the Node would have it with zero, for good."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "p"))
    listening.listen()  # and never answers
    async with node() as here:
        registers = asyncio.create_task(here.plugins.register(GPU, str(tmp_path / "p"), ["v1beta1"]))
        await asyncio.to_thread(listening.accept)
        assert here.plugins.inventory == {}
        registers.cancel()
        await asyncio.gather(registers, return_exceptions=True)
    listening.close()


@pytest.mark.parametrize(
    ("resource", "version", "words"),
    [
        pytest.param(GPU, "v1", 'requested API version "v1" is not supported by kubelet. Supported version is ["v1beta1"]', id="version"),
        pytest.param("cpu", "v1beta1", 'the ResourceName "cpu" is invalid', id="native"),
        pytest.param("kubernetes.io/x", "v1beta1", 'the ResourceName "kubernetes.io/x" is invalid', id="kubernetes"),
        pytest.param("example.com/x y", "v1beta1", 'the ResourceName "example.com/x y" is invalid', id="space"),
        pytest.param("a/b/c", "v1beta1", 'the ResourceName "a/b/c" is invalid', id="two-slashes"),
    ],
)  # fmt: skip
async def test_a_wrong_registration_is_refused(resource: str, version: str, words: str) -> None:
    """In the kubelet's words."""
    async with node() as here:
        with pytest.raises(RegistrationRefused) as refused:
            await here.plugins.register(resource, "/nowhere", [version])
        assert str(refused.value) == words
        assert not here.plugins.inventory


@pytest.mark.parametrize(
    ("faults", "words"),
    [
        pytest.param(
            Faults(hangs=frozenset({"GetDevicePluginOptions"})),
            "failed to get device plugin options: rpc error: code = DeadlineExceeded desc = Deadline Exceeded",
            id="hangs-at-its-options",
        ),
        pytest.param(None, "failed to dial device plugin: context deadline exceeded", id="nobody-listens"),
    ],
)
async def test_one_that_hangs_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, faults: Faults | None, words: str
) -> None:
    """Another registers meanwhile, and of the first nothing is left."""
    monkeypatch.setattr(device_plugin, "OPTIONS_SECONDS", 1.0)
    monkeypatch.setattr(device_plugin, "CONNECT_SECONDS", 1.0)
    async with node() as here, serving(tmp_path / "good", Faults(lists=[devices("a", "b")])):
        bad = serving(tmp_path / "bad", faults) if faults else contextlib.nullcontext()
        async with bad:
            waits = asyncio.create_task(here.plugins.register(GPU, str(tmp_path / "bad"), ["v1beta1"]))
            again = asyncio.create_task(here.plugins.register(GPU, str(tmp_path / "bad"), ["v1beta1"]))
            await here.plugins.register(OTHER, str(tmp_path / "good"), ["v1beta1"])
            await here.until(OTHER, TWO)
            with pytest.raises(RegistrationRefused, match="was registered once more meanwhile"):
                await waits
            with pytest.raises(DevicePluginError) as refused:
                await again
        assert str(refused.value) == words
        assert set(here.plugins.inventory) == {OTHER}


@pytest.mark.parametrize(
    "lists",
    [
        pytest.param([devices(*map(str, range(100_000)))], id="100000-devices"),
        pytest.param([devices("x" * 300)], id="a-long-name"),
        pytest.param([devices("x" * 5_000_000)], id="a-message-of-5-MB"),
        pytest.param([devices(*(f"{number:0250}" for number in range(9000)))], id="9000-long-names"),
        pytest.param(
            [[api.Device(ID=f"{number:030}", topology=EVERYWHERE) for number in range(2000)]],
            id="2000-near-to-60-nodes",
        ),
        pytest.param([[api.Device(ID="a", topology=api.TopologyInfo(nodes=[api.NUMANode()] * 65))]], id="65-nodes"),
    ],
)
async def test_one_that_lies_is_dropped(tmp_path: Path, lists: list[list[api.Device]]) -> None:
    """Its resource has none, and another is untouched."""
    async with (
        node() as here,
        serving(tmp_path / "bad", Faults(lists=lists)),
        serving(tmp_path / "good", Faults(lists=[devices("a", "b")])),
    ):
        await here.plugins.register(OTHER, str(tmp_path / "good"), ["v1beta1"])
        await here.plugins.register(GPU, str(tmp_path / "bad"), ["v1beta1"])
        await here.until(GPU, Listed(registered=False))
        await here.until(OTHER, TWO)
        if (endpoint := here.plugins._resources[GPU].endpoint) and endpoint.task:
            await asyncio.wait([endpoint.task])
        with pytest.raises(DevicePluginError, match=f"endpoint {GPU} has been stopped"):
            await here.plugins.allocate(GPU, ["a"])
        assert not here.plugins.inventory[GPU].nodes


async def test_a_flood_of_lists_is_slowed(tmp_path: Path) -> None:
    """They wait in the plugin's socket."""
    flood = [devices("a") if number % 2 else devices("b") for number in range(2000)]
    async with node() as here, serving(tmp_path / "p", Faults(lists=flood)):
        await here.plugins.register(GPU, str(tmp_path / "p"), ["v1beta1"])
        seen = []
        here.plugins._changed = lambda: seen.append(1)
        await asyncio.sleep(1)  # the time in which lists are counted
        assert 0 < len(seen) <= 1 / device_plugin.LIST_PAUSE + 2


async def test_node_numbers_that_no_machine_has_are_left_out(tmp_path: Path) -> None:
    """A bit mask cannot have them."""
    odd = [devices("a", node=node)[0] for node in (-1, 64, 1 << 40)] + devices("b", node=63)
    async with node() as here, serving(tmp_path / "p", Faults(lists=[odd])):
        await here.plugins.register(GPU, str(tmp_path / "p"), ["v1beta1"])
        await here.until(GPU, Listed({"a": (), "b": (63,)}, frozenset("ab")))


async def test_there_may_be_many_resources_but_not_any_number(tmp_path: Path) -> None:
    """Those that are known stay."""
    async with node() as here:
        here.plugins.known_before(f"example.com/r{number}" for number in range(1000))
        with pytest.raises(RegistrationRefused, match="128 resources"):
            await here.plugins.register(GPU, str(tmp_path / "p"), ["v1beta1"])
        assert len(here.plugins.inventory) == MOST_RESOURCES


@pytest.mark.parametrize("call", ["Allocate", "GetPreferredAllocation", "PreStartContainer"])
async def test_a_call_that_hangs_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """With an error that names it."""
    for name in ("ALLOCATE_SECONDS", "PREFERRED_SECONDS", "PRE_START_SECONDS"):
        monkeypatch.setattr(device_plugin, name, 0.5)
    faults = Faults(hangs=frozenset({call}), lists=[devices("a")], preferred=["a"], is_prestarted=True)
    async with node() as here, serving(tmp_path / "p", faults):
        await here.plugins.register(GPU, str(tmp_path / "p"), ["v1beta1"])
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "Allocate": lambda: here.plugins.allocate(GPU, ["a"]),
            "GetPreferredAllocation": lambda: here.plugins.preferred(GPU, ["a"], [], 1),
            "PreStartContainer": lambda: here.plugins.pre_start(GPU, ["a"]),
        }
        with pytest.raises(DevicePluginError, match=r"code = DeadlineExceeded") as failed:
            await calls[call]()
        assert call == "Allocate" or f"device plugin {call} rpc failed with err: " in str(failed.value)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        pytest.param(api.AllocateResponse(), "no containers return in allocation response", id="nothing"),
        pytest.param(
            api.AllocateResponse(
                container_responses=[api.ContainerAllocateResponse(envs={str(one): "" for one in range(2000)})]
            ),
            "more than 1000 settings",
            id="2000-variables",
        ),
    ],
)
async def test_an_answer_that_cannot_be_used(tmp_path: Path, answer: api.AllocateResponse, words: str) -> None:
    """It is refused as a whole."""
    async with node() as here, serving(tmp_path / "p", Faults(lists=[devices("a")], answer=answer)):
        await here.plugins.register(GPU, str(tmp_path / "p"), ["v1beta1"])
        with pytest.raises(DevicePluginError, match=words):
            await here.plugins.allocate(GPU, ["a"])


async def test_plugins_register_at_the_socket(tmp_path: Path) -> None:
    """Sockets left there are removed before, other files stay; a refusal has the kubelet's words."""
    folder = tmp_path / FOLDER
    folder.mkdir()
    (folder / "kubelet_internal_checkpoint").write_text("{}")
    async with serving(folder / "left", Faults()):
        pass
    counted = Counted()
    async with node() as here:
        serves = asyncio.create_task(serve_registration(tmp_path, here.plugins, counted))
        async with (
            grpc.aio.insecure_channel(f"unix://{folder}/kubelet.sock") as channel,
            serving(tmp_path / "p", Faults(lists=[devices("a", "b")])),
        ):
            stub = api_pb2_grpc.RegistrationStub(channel)
            asked = api.RegisterRequest(version="v1beta1", endpoint="../p", resource_name=GPU)
            await stub.Register(asked, wait_for_ready=True)
            assert {one.name for one in folder.iterdir()} == {"kubelet.sock", "kubelet_internal_checkpoint"}
            await here.until(GPU, TWO)
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await stub.Register(api.RegisterRequest(version="v1beta1", resource_name="x" * 1000))
            assert (refused.value.code(), (refused.value.details() or "")[:20]) == (
                grpc.StatusCode.UNKNOWN,
                'the ResourceName "xx',
            )
            assert counted.registrations == [GPU]
        serves.cancel()
        await asyncio.gather(serves, return_exceptions=True)


async def test_plugins_together_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that would exceed the limit is dropped, the others stay."""
    monkeypatch.setattr(plugins, "MOST_DEVICES", 3)
    async with (
        node() as here,
        serving(tmp_path / "bad", Faults(lists=[devices("c", "d")])),
        serving(tmp_path / "good", Faults(lists=[devices("a", "b")])),
    ):
        await here.plugins.register(OTHER, str(tmp_path / "good"), ["v1beta1"])
        await here.until(OTHER, TWO)
        await here.plugins.register(GPU, str(tmp_path / "bad"), ["v1beta1"])
        if (endpoint := here.plugins._resources[GPU].endpoint) and endpoint.task:
            await asyncio.wait([endpoint.task])
        assert not here.plugins.inventory[GPU].nodes
        assert here.plugins.inventory[OTHER] == TWO
