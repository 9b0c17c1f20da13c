"""Do pods learn that the health of their claims' devices has changed, or is not known any more, and does a restart keep what is known?"""

import asyncio
import json
import re
import stat
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from activities.files.atomic_files import write_atomically
from proto.dra.claims import Claim, PreparedDevice
from proto.dra.device_health import HEALTHY, UNHEALTHY, UNKNOWN, DeviceHealth, DeviceKey
from tests.patience import PATIENCE
from worker.dra import device_health
from worker.dra.device_health import MOST_DEVICES, DevicesHealth
from workflows.decide.claims.accounts import Accounts, ClaimAccount
from workflows.decide.claims.health_state import STATE_FILE

DRIVER, A, B = "gpu.test", ("p", "a"), ("p", "b")
WELL, ILL = DeviceHealth(HEALTHY), DeviceHealth(UNHEALTHY, "too hot")


def account(name: str, device: str, *pods: str) -> ClaimAccount:
    """Have a claim with one device."""
    devices = (PreparedDevice(pool="p", device=device),)
    return ClaimAccount(claim=Claim("default", name, f"uid-{name}"), pods=frozenset(pods), drivers={DRIVER: devices})


def pod(uid: str) -> dict[str, Any]:
    """Write a pod with one container that uses the claim `a`, and one that uses none."""
    return {
        "metadata": {"namespace": "default", "name": uid, "uid": uid},
        "spec": {
            "resourceClaims": [{"name": "g", "resourceClaimName": "a"}],
            "containers": [{"name": "c", "resources": {"claims": [{"name": "g"}]}}, {"name": "other"}],
        },
    }


class Node:
    """Pods, their claims, and what is known of their devices."""

    def __init__(self, root_dir: Path) -> None:
        self.root_dir = root_dir
        self.accounts: Accounts = {one.key: one for one in (account("a", "a", "web"), account("b", "b", "other"))}
        self.pods: dict[str, Mapping[str, Any]] = {"web": pod("web")}
        self.changed: asyncio.Queue[Collection[str]] = asyncio.Queue()
        self.known = self.restarted()

    def restarted(self) -> DevicesHealth:
        """Begin anew with what the file says."""
        self.known = DevicesHealth(self.root_dir, lambda: self.accounts, lambda uid: self.pods.get(uid, {}))
        self.known.changed = self.changed.put_nowait
        return self.known

    def health(self, container: str = "c") -> list[tuple[str, str]]:
        """Return what the status of a container of `web` shows: health and message."""
        entries = self.known.of("web", container)
        return [(each["health"], each.get("message", "")) for one in entries for each in one["resources"]]

    async def told(self) -> Collection[str]:
        """Wait until some pods' health has changed."""
        async with asyncio.timeout(PATIENCE):
            return await self.changed.get()

    def on_disk(self) -> dict[str, str]:
        """Return the health of each device in the file."""
        content = json.loads((self.root_dir / STATE_FILE).read_text())
        return {key: one["Health"] for driver in content.values() for key, one in driver["Devices"].items()}


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """Have a node that looks at changes at once."""
    monkeypatch.setattr(device_health, "PAUSE", 0.0)
    return Node(tmp_path)


@asynccontextmanager
async def running(node: Node) -> AsyncIterator[None]:
    """Run the loop while the block runs; what it tells first of all is taken."""
    task = asyncio.create_task(node.known.run())
    assert await node.told() == {"web"}
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_pods_are_told_when_the_health_of_their_devices_changes(node: Node) -> None:
    """Not for what they have not got, nor for a report that says the same."""
    plugin = object()
    async with running(node):
        assert node.health() == [(UNKNOWN, "")]
        node.known.take(DRIVER, plugin, {A: WELL, B: WELL})
        assert await node.told() == {"web"}
        assert node.health() == [(HEALTHY, "")]
        node.known.take(DRIVER, plugin, {A: WELL, B: ILL})
        node.known.take(DRIVER, plugin, {A: ILL, B: ILL})
        assert await node.told() == {"web"}
        assert node.health() == [(UNHEALTHY, "too hot")]
        assert node.health("other") == []
        node.known.forget(DRIVER, plugin)
        assert await node.told() == {"web"}
        assert node.health() == [(UNKNOWN, "")]
        assert node.changed.empty()


async def test_what_counts_no_more_is_told_by_itself(node: Node) -> None:
    """A plugin that hangs sends nothing that could tell it."""
    async with running(node):
        node.known.take(DRIVER, object(), {A: WELL})
        assert await node.told() == {"web"}
        node.known.take(DRIVER, object(), {A: DeviceHealth(UNHEALTHY, timeout=1)})
        assert await node.told() == {"web"}
        assert await node.told() == {"web"}
        assert node.health() == [(UNKNOWN, "")]
    await node.known.save(only_changed=True)
    assert node.on_disk() == {}


async def test_a_plugin_that_goes_leaves_what_its_successor_said(node: Node) -> None:
    """During a driver's update."""
    old, new = object(), object()
    node.known.take(DRIVER, old, {A: ILL, B: ILL})
    node.known.take(DRIVER, new, {A: WELL})
    node.known.forget(DRIVER, old)
    assert node.health() == [(HEALTHY, "")]
    node.known.forget(DRIVER, new)
    node.known.forget("another", new)
    assert node.health() == [(UNKNOWN, "")]


async def test_a_restart_keeps_what_counts(node: Node) -> None:
    """Of devices that claims have; others are not written, and the file is for root alone."""
    node.known.take(DRIVER, object(), {A: ILL, ("p", "free"): WELL})
    await node.known.save()
    assert node.on_disk() == {"p/a": UNHEALTHY}
    assert stat.S_IMODE((node.root_dir / STATE_FILE).stat().st_mode) == 0o600
    node.restarted()
    assert node.health() == [(UNHEALTHY, "too hot")]
    file = node.root_dir / STATE_FILE
    file.write_text(re.sub('"LastUpdated":"[^"]*"', '"LastUpdated":"2026-01-01T00:00:00Z"', file.read_text()))
    node.restarted()
    assert node.health() == [(UNKNOWN, "")]
    await node.known.save(only_changed=True)
    assert node.on_disk() == {}


async def test_what_another_process_has_left_is_written_anew(node: Node) -> None:
    """Though nothing is known, and no claim has a device: `tempolet explain` believes the file."""
    node.known.take(DRIVER, object(), {A: ILL})
    await node.known.save()
    node.accounts = {}
    await node.restarted().save(only_changed=True)
    assert node.on_disk() == {}


async def test_changes_are_written(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also that a stream has ended; a report that says the same is not."""
    written, loop, plugin = asyncio.Queue[None](), asyncio.get_running_loop(), object()

    def write(*args: Any, **options: Any) -> None:
        write_atomically(*args, **options)
        loop.call_soon_threadsafe(written.put_nowait, None)

    monkeypatch.setattr(device_health, "write_atomically", write)
    async with running(node), asyncio.timeout(PATIENCE):
        node.known.take(DRIVER, plugin, {A: ILL})
        await written.get()
        assert node.on_disk() == {"p/a": UNHEALTHY}
        node.known.take(DRIVER, plugin, {A: ILL})
        node.known.forget(DRIVER, plugin)
        await written.get()
        assert node.on_disk() == {}
        assert written.empty()


async def test_nothing_is_written_without_a_report(node: Node) -> None:
    """A node whose drivers have no such stream pays nothing."""
    await node.known.save(only_changed=True)
    await node.known.save()
    assert not (node.root_dir / STATE_FILE).exists()


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff\xfe", b"[" * 100_000, b'{"gpu.test":{"Devices":{"p/a":{}}}}'])
def test_a_damaged_file_says_nothing(tmp_path: Path, content: bytes) -> None:
    """Drivers say it again."""
    (tmp_path / STATE_FILE).write_bytes(content)
    assert Node(tmp_path).health() == [(UNKNOWN, "")]


async def test_a_disk_that_is_full(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Statuses show the health all the same, and the file is written as soon as there is room."""
    node.known.take(DRIVER, object(), {A: ILL})
    with monkeypatch.context() as full:

        def refuse(*_: Any, **__: Any) -> None:
            raise OSError(28, "No space left on device")

        full.setattr(device_health, "write_atomically", refuse)
        await node.known.save(only_changed=True)
    assert node.health() == [(UNHEALTHY, "too hot")]
    await node.known.save(only_changed=True)
    assert node.on_disk() == {"p/a": UNHEALTHY}


def many(number: int, of: str = "d") -> dict[DeviceKey, DeviceHealth]:
    """Report many devices."""
    return {("p", f"{of}{one}"): WELL for one in range(number)}


def test_a_driver_cannot_fill_the_memory(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """With ever new devices; nor can many drivers together, and what others have said stays."""
    monkeypatch.setattr(device_health, "MOST_OF_ALL", MOST_DEVICES + 10)
    node.known.take(DRIVER, None, {A: ILL})
    for turn in range(5):
        node.known.take("greedy.test", None, many(MOST_DEVICES, f"{turn}-"))
    with pytest.raises(ValueError, match="9 are left for it"):
        node.known.take("another.test", None, many(10))
    node.known.take("another.test", None, many(9))
    assert node.health() == [(UNHEALTHY, "too hot")]
    assert sum(map(len, node.known._drivers.values())) == MOST_DEVICES + 10


async def test_a_pod_that_is_gone_is_not_told(node: Node) -> None:
    """Its claims may be there for a while."""
    async with running(node):
        node.pods.clear()
        node.known.take(DRIVER, object(), {A: WELL})
        node.pods["web"] = pod("web")
        node.known.take(DRIVER, object(), {A: ILL})
        assert await node.told() == {"web"}
        assert node.health() == [(UNHEALTHY, "too hot")]
