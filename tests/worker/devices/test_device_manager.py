"""Does a container keep its devices, whatever restarts, and does it get what the plugin says?"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from activities.hardware.services import NOTHING, HardwareRefused
from proto.cri.ownership import DEVICES_ANNOTATION
from proto.cri.runtime_container import RuntimeContainer
from proto.deviceplugin.v1beta1 import api_pb2 as api
from proto.node_devices import DeviceCount, read_node_devices, read_unanswered_devices
from proto.temporal.hardware.ledger import (
    UNEXPECTED,
    AllocateHardware,
    ContainerAssignment,
    GivenDevices,
    PodAssignment,
)
from tests.worker.devices.lying_plugin import Faults, devices, serving
from worker.devices.of_this_node import NodeDevices
from worker.hardware import node_hardware
from worker.hardware.node_hardware import NodeHardware
from workflows.decide.devices import room
from workflows.decide.devices.assignments import Assigned, Assignments
from workflows.decide.devices.checkpoint import STATE_FILE
from workflows.decide.devices.requests import NOT_REGISTERED
from workflows.decide.topology.hints import ANY

GPU = "example.com/gpu"
ANSWER = api.AllocateResponse(
    container_responses=[
        api.ContainerAllocateResponse(
            envs={"GPU": "0"},
            mounts=[api.Mount(container_path="/m", host_path="/h", read_only=True)],
            devices=[api.DeviceSpec(container_path="/dev/x", host_path="/dev/y", permissions="rw")],
            annotations={"k": "v"},
            cdi_devices=[api.CDIDevice(name="example.com/gpu=0")],
        )
    ]
)


def pod(uid: str, count: int = 1, init: int = 0) -> dict[str, Any]:
    """Build the slice of a pod that wants devices."""
    spec: dict[str, Any] = {"containers": [{"name": "app", "resources": {"limits": {GPU: str(count)}}}]}
    if init:
        spec["initContainers"] = [{"name": "init", "resources": {"limits": {GPU: str(init)}}}]
    return {"metadata": {"namespace": "default", "name": uid, "uid": uid}, "spec": spec}


@asynccontextmanager
async def node(root: Path, socket: Path | None = None, *left: RuntimeContainer) -> AsyncIterator[NodeDevices]:
    """Run a node's devices, with the plugin behind a socket; the runtime has these containers."""
    found = NodeDevices(root, left=lambda: left)
    found.plugins.known_before(found._before)
    try:
        if socket:
            await found.plugins.register(GPU, str(socket), ["v1beta1"])
            assert await found.plugins.is_registered(GPU, timedelta(seconds=10))
        yield found
    finally:
        await found.plugins.close()


def ids(here: NodeDevices, uid: str, container: str = "app") -> frozenset[str] | None:
    """Return what a container has."""
    return here.manager.known.of(uid, container, GPU)


async def admit(here: NodeDevices, asked: dict[str, Any]) -> None:
    """Give all containers of a pod their devices."""
    for kind in ("initContainers", "containers"):
        for one in asked["spec"].get(kind, ()):
            await here.manager.allocate(asked, one["name"], ANY)
    here.manager.save()


async def test_a_container_gets_what_the_plugin_says(tmp_path: Path) -> None:
    """Devices, and how they are used; why, in words."""
    async with (
        serving(tmp_path / "p", Faults(lists=[devices("a", "b")], answer=ANSWER)) as plugin,
        node(tmp_path / "root", tmp_path / "p") as here,
    ):
        await admit(here, pod("u"))
        made = here.manager.of(NOTHING, "u", "app")
        given = here.manager.given(ContainerAssignment(), "u", "app")
        why = here.manager.why(pod("u"), "app")
    assert made.environment == {"GPU": "0"}
    assert [(one.container_path, one.host_path, one.readonly) for one in made.mounts] == [("/m", "/h", True)]
    assert [(one.container_path, one.host_path, one.permissions) for one in made.devices] == [
        ("/dev/x", "/dev/y", "rw")
    ]
    assert made.annotations == {"k": "v", DEVICES_ANNOTATION: f'{{"{GPU}":{{"-1":["a"]}}}}'}
    assert made.cdi_devices == ("example.com/gpu=0",)
    assert given.devices == (GivenDevices(GPU, ("a",)),)
    assert why == f"container app has {GPU} a: it asks for 1"
    assert plugin.calls[-1] == ("Allocate", ("a",))


async def test_a_restart_changes_nothing(tmp_path: Path) -> None:
    """Neither the plugin nor another pod is given a device that somebody has, and the answer is kept."""
    async with serving(tmp_path / "p", Faults(lists=[devices("a", "b")], answer=ANSWER)) as plugin:
        async with node(tmp_path / "root", tmp_path / "p") as here:
            await admit(here, pod("u"))
            made = here.manager.of(NOTHING, "u", "app")
            ledger = {
                "u": PodAssignment("default", "u", {"app": here.manager.given(ContainerAssignment(), "u", "app")})
            }
        async with node(tmp_path / "root") as again:
            assert again.manager.of(NOTHING, "u", "app") == made
            again.manager.keep(ledger, {"u"})
            assert again.manager.of(NOTHING, "u", "app") == made
        async with node(tmp_path / "root", tmp_path / "p") as here:
            here.manager.keep(ledger, {"u", "v"})
            await admit(here, pod("u"))
            await admit(here, pod("v"))
            assert (ids(here, "u"), ids(here, "v")) == (frozenset("a"), frozenset("b"))
    assert [one for name, one in plugin.calls if name == "Allocate"] == [("a",), ("b",)]


async def test_a_lost_checkpoint_is_made_again_from_the_ledger(tmp_path: Path) -> None:
    """The plugin is asked once more for the same devices."""
    ledger = {"u": PodAssignment("default", "u", {"app": ContainerAssignment(devices=(GivenDevices(GPU, ("b",), 0),))})}
    async with (
        serving(tmp_path / "p", Faults(lists=[devices("a", "b", node=0)], answer=ANSWER)) as plugin,
        node(tmp_path / "root", tmp_path / "p") as here,
    ):
        here.manager.keep(ledger, {"u"})
        await admit(here, pod("u"))
        assert here.manager.of(NOTHING, "u", "app").environment == {"GPU": "0"}
    assert plugin.calls[-1] == ("Allocate", ("b",))


async def test_after_a_boot_a_pod_waits_for_the_plugin(tmp_path: Path) -> None:
    """It is refused for now, not for good."""
    async with (
        serving(tmp_path / "p", Faults(lists=[devices("a")], answer=ANSWER)),
        node(tmp_path / "root", tmp_path / "p") as here,
    ):
        here.manager.save()
    async with node(tmp_path / "root") as here:
        with pytest.raises(HardwareRefused, match=f"no healthy devices present.*{GPU}: waiting for") as refused:
            await admit(here, pod("u"))
        assert refused.value.reason == NOT_REGISTERED


@pytest.mark.parametrize(
    ("faults", "words"),
    [
        pytest.param(
            Faults(lists=[devices("a")], answer=ANSWER),
            f"requested number of devices unavailable for {GPU}. Requested: 2, Available: 1",
            id="too-few",
        ),
        pytest.param(
            Faults(lists=[devices("a", "b")]), "no containers return in allocation response", id="an-empty-answer"
        ),
    ],
)
async def test_a_pod_is_rejected_in_the_kubelets_words(tmp_path: Path, faults: Faults, words: str) -> None:
    """And nothing is left behind."""
    async with serving(tmp_path / "p", faults), node(tmp_path / "root", tmp_path / "p") as here:
        with pytest.raises(HardwareRefused) as refused:
            await admit(here, pod("u", 2))
        assert (refused.value.reason, str(refused.value)) == (
            UNEXPECTED,
            f"Allocate failed due to {words}, which is unexpected",
        )
        assert not here.manager.holders()


async def test_names_that_the_ledger_has_no_room_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin may list others each time, so what pods have counts; a pod that has them keeps them."""
    monkeypatch.setattr(room, "MOST_NAMES", 25)
    names = [f"{number:010}" for number in range(4)]
    async with (
        serving(tmp_path / "p", Faults(lists=[devices(*names)], answer=ANSWER)) as plugin,
        node(tmp_path / "root", tmp_path / "p") as here,
    ):
        hardware = NodeHardware([here.manager])
        given = await hardware.allocate(AllocateHardware(pod("u", 2)))
        with pytest.raises(HardwareRefused) as refused:
            await hardware.allocate(AllocateHardware(pod("v", 1), counting=("u",)))
        too_long = "the names of its devices have 10 bytes, and those of others 20: together more than 25"
        assert refused.value.reason == UNEXPECTED
        assert str(refused.value) == f"Allocate failed due to {too_long}, which is unexpected"
        assert await hardware.allocate(AllocateHardware(pod("u", 2))) == given
        assert len([name for name, _ in plugin.calls if name == "Allocate"]) == 1


async def test_an_answer_that_the_checkpoint_has_no_room_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is hashed at each change, with all others."""
    size = len(ANSWER.container_responses[0].SerializeToString())
    monkeypatch.setattr(room, "MOST_ANSWERS", 2 * size - 1)
    async with (
        serving(tmp_path / "p", Faults(lists=[devices("a", "b")], answer=ANSWER)),
        node(tmp_path / "root", tmp_path / "p") as here,
    ):
        hardware = NodeHardware([here.manager])
        await hardware.allocate(AllocateHardware(pod("u")))
        too_much = (
            f"the plugin's answer has {size} bytes, and those of others {size}: together more than {2 * size - 1}"
        )
        with pytest.raises(HardwareRefused, match=too_much) as refused:
            await hardware.allocate(AllocateHardware(pod("v"), counting=("u",)))
        assert refused.value.reason == UNEXPECTED
        assert set(here.manager.holders()) == {"u"}


async def test_a_sentence_names_some_of_many_devices(tmp_path: Path) -> None:
    """The ledger has all of them."""
    names = [str(number) for number in range(20)]
    async with (
        serving(tmp_path / "p", Faults(lists=[devices(*names)], answer=ANSWER)),
        node(tmp_path / "root", tmp_path / "p") as here,
    ):
        given = await NodeHardware([here.manager]).allocate(AllocateHardware(pod("u", 20)))
        assert given.why == (f"container app has {GPU} {', '.join(names[:16])} and 4 more: it asks for 20",)
        assert set(given.containers["app"].devices[0].ids) == set(names)


async def test_an_init_containers_devices_are_used_again(tmp_path: Path) -> None:
    """Not by another pod, as long as the pod is there."""
    async with (
        serving(tmp_path / "p", Faults(lists=[devices("a", "b", "c")], answer=ANSWER)),
        node(tmp_path / "root", tmp_path / "p") as here,
    ):
        await admit(here, pod("u", 1, init=2))
        assert (ids(here, "u", "init"), ids(here, "u")) == (frozenset("ab"), frozenset("a"))
        await admit(here, pod("v"))
        assert ids(here, "v") == frozenset("c")
        here.manager.release(["u"])
        await admit(here, pod("w", 2))
        assert ids(here, "w") == frozenset("ab")


async def test_each_start_is_prepared(tmp_path: Path) -> None:
    """If the plugin wants that."""
    async with (
        serving(tmp_path / "p", Faults(lists=[devices("a")], answer=ANSWER, is_prestarted=True)) as plugin,
        node(tmp_path / "root", tmp_path / "p") as here,
    ):
        await admit(here, pod("u"))
        (app,) = pod("u")["spec"]["containers"]
        await here.manager.starting("u", app)
        await here.manager.starting("u", app)
        await here.manager.starting("other", {"name": "app"})
    assert [name for name, _ in plugin.calls if name == "PreStartContainer"] == ["PreStartContainer"] * 2


async def test_what_other_processes_read(tmp_path: Path) -> None:
    """Capacity and healthy devices; a resource that is gone stays with zero, also after a restart."""
    root = tmp_path / "root"
    async with (
        serving(tmp_path / "p", Faults(lists=[[*devices("a"), *devices("b", health="x")]], answer=ANSWER)),
        node(root, tmp_path / "p") as here,
    ):
        await here.write()
        assert read_node_devices(root) == {GPU: DeviceCount(2, 1)}
    registered = json.loads((root / STATE_FILE).read_text())["Data"]["RegisteredDevices"]
    assert registered == {GPU: ["a"]}
    async with node(root) as here:
        await here.write()
        assert read_node_devices(root) == {GPU: DeviceCount()}
        here.plugins._resources[GPU].going.cancel()  # type: ignore[union-attr]  # it was just made
        del here.plugins._resources[GPU]
        here.plugins.removed.add(GPU)
        await here.write()
    async with node(root) as here:
        await here.write()
        assert read_node_devices(root) == {GPU: DeviceCount(gone=True)}


@pytest.mark.parametrize("text", ["", "{", "\x00", '{"Data":{}}', "[]" * 100])
def test_a_damaged_checkpoint_stops_nothing(tmp_path: Path, text: str) -> None:
    """As with the kubelet."""
    (tmp_path / "device-plugins").mkdir()
    (tmp_path / STATE_FILE).write_text(text)
    assert not NodeDevices(tmp_path).manager.holders()


async def test_no_container_starts_without_its_devices(tmp_path: Path) -> None:
    """Neither while its plugin has not registered again, nor without what the plugin answered; another resource is nobody's here."""
    root = tmp_path / "root"
    (app,) = pod("u")["spec"]["containers"]
    async with serving(tmp_path / "p", Faults(lists=[devices("a")], answer=ANSWER, is_prestarted=True)):
        async with node(root, tmp_path / "p") as here:
            await admit(here, pod("u"))
        async with node(root) as here:
            with pytest.raises(HardwareRefused, match="waiting for its device plugin to register"):
                await here.manager.starting("u", app)
            await here.manager.starting("u", {"name": "app", "resources": {"limits": {"example.com/other": "1"}}})
        async with node(root, tmp_path / "p") as here:
            await here.manager.starting("u", app)
            with pytest.raises(
                HardwareRefused, match="no devices found allocated in local cache for pod v, container app, resource"
            ):
                await here.manager.starting("v", app)
    async with node(root) as here:
        here.plugins.removed.add(GPU)
        del here.plugins._resources[GPU]
        here.manager.release(["u"])
        with pytest.raises(HardwareRefused, match="no devices found allocated"):
            await here.manager.starting("u", app)


async def test_devices_that_only_the_runtime_knows(tmp_path: Path) -> None:
    """The container keeps them, another pod is given others, and the plugin is asked again only before a start."""
    (app,) = pod("u")["spec"]["containers"]
    faults = Faults(lists=[devices("a", "b")], answer=ANSWER)
    async with serving(tmp_path / "p", faults) as plugin, node(tmp_path / "before", tmp_path / "p") as here:
        await admit(here, pod("u"))
        made = here.manager.of(NOTHING, "u", "app")
        left = RuntimeContainer("u", "app", devices=made.annotations[DEVICES_ANNOTATION])
        async with node(tmp_path / "root", None, left) as again:
            assert (ids(again, "u"), again.found) == (frozenset("a"), frozenset("u"))
            await again.write()
            assert read_unanswered_devices(tmp_path / "root") == {"u": {"app": {GPU: {-1: ("a",)}}}}
            hardware = NodeHardware([again.manager])
            with pytest.raises(HardwareRefused, match="waiting for its device plugin to register"):
                await hardware.starting("u", app)
        async with node(tmp_path / "root", tmp_path / "p", left) as again:
            hardware = NodeHardware([again.manager])
            other = await hardware.allocate(AllocateHardware(pod("v"), counting=("u",)))
            assert other.containers["app"].devices == (GivenDevices(GPU, ("b",)),)
            assert [one for name, one in plugin.calls if name == "Allocate"] == [("a",), ("b",)]
            assert read_unanswered_devices(tmp_path / "root") == {"u": {"app": {GPU: {-1: ("a",)}}}}
            await hardware.starting("u", app)
            assert not read_unanswered_devices(tmp_path / "root"), "the checkpoint has it"
            await hardware.starting("u", app)
            assert again.manager.of(NOTHING, "u", "app") == made
        assert [one for name, one in plugin.calls if name == "Allocate"] == [("a",), ("b",), ("a",)]
        async with node(tmp_path / "root") as again:
            assert again.manager.of(NOTHING, "u", "app") == made


@pytest.mark.parametrize("ids", [("b",), ()])
async def test_no_plugin_says_which_devices_a_container_has(tmp_path: Path, ids: tuple[str, ...]) -> None:
    """Its annotation of that name is dropped."""
    answer = api.ContainerAllocateResponse(annotations={DEVICES_ANNOTATION: "theirs", "k": "v"})
    async with node(tmp_path) as here:
        assigned = Assigned({-1: ids}, answer.SerializeToString())
        here.manager.restore(Assignments().with_assigned("u", "app", GPU, assigned))
        made = here.manager.of(NOTHING, "u", "app").annotations
    assert made == {"k": "v"} | ({DEVICES_ANNOTATION: f'{{"{GPU}":{{"-1":["b"]}}}}'} if ids else {})


async def test_a_container_of_which_nobody_knows_the_devices(tmp_path: Path) -> None:
    """It is given others, as by a kubelet, once the ledger has said what is free."""
    (app,) = pod("u")["spec"]["containers"]
    ledger = {"v": PodAssignment("default", "v", {"app": ContainerAssignment(devices=(GivenDevices(GPU, ("a",)),))})}
    async with (
        serving(tmp_path / "p", Faults(lists=[devices("a", "b", "c")], answer=ANSWER)),
        node(tmp_path / "root", tmp_path / "p") as here,
    ):
        hardware = NodeHardware([here.manager])
        with pytest.raises(HardwareRefused, match="no devices found allocated in local cache"):
            await hardware.starting("u", app)
        await hardware.allocate(AllocateHardware(pod("w"), ledger, ("u", "v")))
        await hardware.starting("u", app)
        assert (ids(here, "u"), ids(here, "v"), ids(here, "w")) == (frozenset("c"), frozenset("a"), frozenset("b"))
        assert here.manager.of(NOTHING, "u", "app").environment == {"GPU": "0"}


async def test_a_plugin_that_hangs_when_it_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The start fails, and the next one asks again; others are not held up for longer."""
    monkeypatch.setattr(node_hardware, "ALLOCATED_WITHIN", 0.2)
    (app,) = pod("u")["spec"]["containers"]
    left = RuntimeContainer("u", "app", devices=f'{{"{GPU}":{{"-1":["a"]}}}}')
    async with (
        serving(tmp_path / "p", Faults(lists=[devices("a")], answer=ANSWER, hangs=frozenset({"Allocate"}))) as plugin,
        node(tmp_path / "root", tmp_path / "p", left) as here,
    ):
        hardware = NodeHardware([here.manager])
        with pytest.raises(HardwareRefused, match="device plugins that have not answered within"):
            await hardware.starting("u", app)
        plugin.hangs = frozenset()
        await hardware.starting("u", app)
        assert here.manager.of(NOTHING, "u", "app").environment == {"GPU": "0"}


async def test_a_plugin_that_is_away_fails_the_start_if_it_prepares_starts(tmp_path: Path) -> None:
    """In the kubelet's words; one that does not lets it pass."""
    (app,) = pod("u")["spec"]["containers"]
    for is_prestarted in (True, False):
        root, socket = tmp_path / str(is_prestarted), tmp_path / f"{is_prestarted}.sock"
        async with node(root) as here:
            async with serving(socket, Faults(lists=[devices("a")], answer=ANSWER, is_prestarted=is_prestarted)):
                await here.plugins.register(GPU, str(socket), ["v1beta1"])
                assert await here.plugins.is_registered(GPU, timedelta(seconds=10))
                await admit(here, pod("u"))
            if (endpoint := here.plugins._resources[GPU].endpoint) and endpoint.task:
                await asyncio.wait([endpoint.task])
            if is_prestarted:
                with pytest.raises(
                    HardwareRefused, match=f"PreStartContainer rpc failed with err: endpoint {GPU} has been stopped"
                ):
                    await here.manager.starting("u", app)
            else:
                await here.manager.starting("u", app)


async def test_pods_are_told_whose_devices_fail(tmp_path: Path) -> None:
    """And only they; a plugin that goes away says nothing of the health of its devices, as with the kubelet."""
    told: list[set[str]] = []
    async with (
        serving(tmp_path / "p", Faults(lists=[devices("a", "b")], answer=ANSWER)) as plugin,
        node(tmp_path / "root", tmp_path / "p") as here,
    ):
        here.health_changed = lambda uids: told.append(set(uids))
        here._tell_health()
        await admit(here, pod("u"))  # nothing is listed between this and the failure
        await admit(here, pod("v"))
        plugin.more.put_nowait([*devices("a", health="Unhealthy"), *devices("b")])
        async with asyncio.timeout(20):
            while here.plugins.inventory[GPU].healthy != {"b"}:
                here._event.clear()
                await here._event.wait()
        here._tell_health()
        here._tell_health()
        assert told == [{"u"}]
        assert [here.health(uid, "app")[0]["resources"] for uid in ("u", "v")] == [
            [{"resourceID": "a", "health": "Unhealthy"}],
            [{"resourceID": "b", "health": "Healthy"}],
        ]
