"""Does a static pod wait for its device plugin, and only for that?"""

import asyncio
from pathlib import Path

import pytest

from proto.node_devices import (
    DeviceCount,
    node_devices_path,
    unused_plugins_path,
    write_node_devices,
    write_unused_plugins,
)
from worker.poller.manifests import awaited_devices
from worker.poller.manifests.awaited_devices import AwaitedDevices

GPU = "example.com/gpu"
WAITS = f"no device plugin has registered {GPU} yet; the pod starts when one does"


def by_hand(resource: str) -> bool:
    """Report what an administrator has put into the Node's status."""
    return resource == "example.com/dongle"


@pytest.mark.parametrize(
    ("known", "limits", "why"),
    [
        pytest.param({}, {"cpu": "1"}, "", id="it-wants-none"),
        pytest.param({}, {GPU: "0"}, "", id="none-of-them"),
        pytest.param({}, {GPU: "1"}, WAITS, id="never-registered"),
        pytest.param({GPU: DeviceCount()}, {GPU: "1"}, WAITS, id="not-since-the-start"),
        pytest.param({GPU: DeviceCount(gone=True)}, {GPU: "1"}, WAITS, id="gone"),
        pytest.param({}, {"example.com/dongle": "1"}, "", id="advertised-by-hand"),
        pytest.param({GPU: DeviceCount(2, 0)}, {GPU: "1"}, "", id="unhealthy-which-admission-tells"),
        pytest.param({GPU: DeviceCount(1, 1)}, {GPU: "2"}, "", id="too-few-which-admission-tells"),
    ],
)
def test_who_waits(tmp_path: Path, known: dict[str, DeviceCount], limits: dict[str, str], why: str) -> None:
    """By what the worker has written."""
    write_node_devices(tmp_path, known)
    pod = {"metadata": {}, "spec": {"initContainers": [{"name": "a", "resources": {"limits": limits}}]}}
    assert AwaitedDevices(tmp_path, lambda: None, by_hand).why_waits(pod) == why


def test_it_is_told_why_a_plugin_that_has_come_is_not_in_use(tmp_path: Path) -> None:
    """And not if that is of another resource, or cannot be read."""
    pod = {"metadata": {}, "spec": {"containers": [{"name": "a", "resources": {"limits": {GPU: "1"}}}]}}
    waiting = AwaitedDevices(tmp_path, lambda: None, by_hand)
    write_unused_plugins(tmp_path, {GPU: "it lists no device", "example.com/nic": "it is ill"})
    assert waiting.why_waits(pod) == (
        f"the device plugin of {GPU} is not in use: it lists no device; the pod starts when it lists devices"
    )
    unused_plugins_path(tmp_path).write_text("[")
    assert waiting.why_waits(pod) == WAITS


@pytest.mark.parametrize("damage", ["", "[]", '{"a": 1}', "\x00" * 100])
def test_a_damaged_file_is_as_none(tmp_path: Path, damage: str) -> None:
    """The pod waits."""
    node_devices_path(tmp_path).parent.mkdir()
    node_devices_path(tmp_path).write_text(damage)
    pod = {"metadata": {}, "spec": {"containers": [{"name": "a", "resources": {"limits": {GPU: "1"}}}]}}
    assert AwaitedDevices(tmp_path, lambda: None, by_hand).why_waits(pod) == WAITS


async def test_it_is_asked_again_while_a_pod_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And never before one does."""
    monkeypatch.setattr(awaited_devices, "LOOK_AGAIN", 0.01)
    pod = {"metadata": {}, "spec": {"containers": [{"name": "a", "resources": {"limits": {GPU: "1"}}}]}}
    asked, done = [0], asyncio.Event()

    def look_again() -> None:
        asked[0] += 1
        if asked[0] == 3:
            write_node_devices(tmp_path, {GPU: DeviceCount(1, 1)})
        if not devices.why_waits(pod):
            done.set()

    devices = AwaitedDevices(tmp_path, look_again, by_hand)
    runs = asyncio.create_task(devices.run())
    await asyncio.sleep(0)
    assert asked == [0]
    assert devices.why_waits(pod)
    async with asyncio.timeout(20):
        await done.wait()
    assert asked == [3]
    runs.cancel()
