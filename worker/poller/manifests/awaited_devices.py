"""Static pods that wait for their device plugins to register.

A scheduler sends no pod before the node has its devices; a manifest is there at once, often together with that of the plugin. A kubelet
starts such a pod without devices if the plugin is new to it, and rejects it for good otherwise.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

from proto.node_devices import DeviceCount, read_node_devices, read_unused_plugins
from proto.temporal.pod import PodJson
from workflows.decide.devices.awaited import why_awaited
from workflows.decide.devices.requests import container_wants

LOOK_AGAIN: Final = 1.0
"""Seconds between two looks while a pod waits."""


class AwaitedDevices:
    """Those of one node; used from one event loop."""

    def __init__(self, root_dir: Path, look_again: Callable[[], None], is_advertised: Callable[[str], bool]) -> None:
        """Take --root-dir, what asks for each pod again, and what reports whether the Node has some of a resource that is no plugin's."""
        self._root_dir, self._look_again, self._is_advertised = root_dir, look_again, is_advertised
        self._awaited = asyncio.Event()

    def why_waits(self, pod: PodJson) -> str:
        """Return which plugin a pod waits for, and why it is not in use; empty if the pod can begin."""
        wanted = {name for one in container_wants(pod) for name, count in one.wanted.items() if count}
        if not wanted:
            return ""
        found = read_node_devices(self._root_dir)
        plugins = {name for name in wanted if name in found or not self._is_advertised(name)}
        lacking = [name for name in plugins if not found.get(name, DeviceCount()).capacity]
        if not lacking:
            return ""
        self._awaited.set()
        return why_awaited(lacking, read_unused_plugins(self._root_dir))

    async def run(self) -> None:
        """Ask again each second as long as a pod waits; never returns."""
        while True:
            await self._awaited.wait()
            self._awaited.clear()
            self._look_again()
            await asyncio.sleep(LOOK_AGAIN)
