"""What device plugins bring to this node: their registration, their numbers for other processes, and who has which devices.

Called by the worker process.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import structlog

from proto.cri.runtime_container import RuntimeContainer
from proto.node_devices import (
    DeviceCount,
    read_node_devices,
    write_healthy_devices,
    write_node_devices,
    write_unused_plugins,
)
from worker.daemon.background import in_background
from worker.devices.checkpoint_files import load_checkpoint
from worker.devices.counts import Counts, Uncounted
from worker.devices.device_manager import DeviceManager
from worker.devices.plugins import DevicePlugins
from worker.settings.hardware.numa_nodes import FOLDER
from worker.settings.hardware.numbered_folders import numbered_folders
from workflows.decide.devices.checkpoint import Checkpoint
from workflows.decide.devices.health import resources_status
from workflows.decide.devices.inventory import Inventory
from workflows.decide.devices.recovery import recovered

WRITE_PAUSE: Final = 0.5
"""Seconds between two writes."""

_log: Final = structlog.get_logger(__name__)


def numa_nodes(folder: Path = FOLDER) -> tuple[int, ...]:
    """List the machine's NUMA nodes; one if it does not tell."""
    return tuple(sorted(numbered_folders(folder, "node"))) or (0,)


def _completed(checkpoint: Checkpoint, left: Sequence[RuntimeContainer]) -> Checkpoint:
    """Add what containers have beside it."""
    found = recovered(checkpoint.assignments, left)
    for why in found.ignored:
        _log.warning("a container does not keep its devices", why=why)
    return replace(checkpoint, assignments=found.assignments)


class NodeDevices:
    """The device plugins of one node; used from one event loop."""

    def __init__(
        self, root_dir: Path, counts: Counts | None = None, left: Callable[[], Sequence[RuntimeContainer]] = tuple
    ) -> None:
        """Read what was known before; `left` returns the node's containers with their annotations of devices, for what the checkpoint lacks."""
        self._root_dir, self._counts = root_dir, counts or Uncounted()
        self._event = asyncio.Event()
        self.health_changed: Callable[[Collection[str]], None] = lambda _: None
        """Called with the uids of pods whose devices are healthy no more, or again."""
        self.listed_anew: Callable[[], None] = lambda: None
        """Called at each change of what is listed."""
        self._told: Inventory = {}
        """What was listed when pods were last told."""
        kept = load_checkpoint(root_dir)
        checkpoint = _completed(kept, left())
        self.found = frozenset(
            uid for uid, had in checkpoint.assignments.pods.items() if kept.assignments.pods.get(uid) != had
        )
        """The pods of whose devices only the runtime knew."""
        self.plugins = DevicePlugins(self._event.set)
        self._before = tuple(checkpoint.registered)
        self.plugins.removed.update(set(read_node_devices(root_dir)) - set(self._before))
        self.manager = DeviceManager(self.plugins, root_dir, numa_nodes(), checkpoint, counts=self._counts)

    def health(self, pod_uid: str, container: str) -> Sequence[Mapping[str, Any]]:
        """Return the health of a container's devices, as its status shows it."""
        return resources_status(self.manager.known, pod_uid, container, self.plugins.inventory)

    def _tell_health(self) -> None:
        """Tell of which pods the health of devices is not what it was, also of a pod that has got them since."""
        known, before, now = self.manager.known, self._told, self.plugins.inventory
        self._told = now
        changed = {
            uid
            for uid, containers in known.pods.items()
            for container in containers
            if resources_status(known, uid, container, before) != resources_status(known, uid, container, now)
        }
        if changed:
            self.health_changed(changed)

    def running(self) -> Sequence[AbstractAsyncContextManager[None]]:
        """Return what runs in the worker: the registration, and the files of what is listed."""
        return self._closing(), in_background("devices", self._write), in_background("device plugins", self._serve)

    @asynccontextmanager
    async def _closing(self) -> AsyncIterator[None]:
        self.plugins.known_before(self._before)
        try:
            yield
        finally:
            await self.plugins.close()

    async def _serve(self) -> None:
        from worker.devices.registration import serve_registration  # noqa: PLC0415 - gRPC's server

        await serve_registration(self._root_dir, self.plugins, self._counts)

    async def _write(self) -> None:
        """Write the files at each change, but not all the time for a plugin that lists other devices all the time."""
        while True:
            self._event.clear()
            self._tell_health()
            self.listed_anew()
            await self.write()
            await asyncio.sleep(WRITE_PAUSE)
            await self._event.wait()

    async def write(self) -> None:
        """Write all now; one that cannot be written is written at the next change."""
        found = {
            name: DeviceCount(one.capacity, one.allocatable) for name, one in self.plugins.inventory.items()
        } | dict.fromkeys(self.plugins.removed, DeviceCount(gone=True))
        healthy = {
            name: {device: one.near(device) for device in sorted(one.healthy)}
            for name, one in self.plugins.inventory.items()
        }
        numbers = partial(write_node_devices, self._root_dir, found)
        unused = partial(write_unused_plugins, self._root_dir, dict(self.plugins.unused.now))
        always = self.manager.save, unused
        for write in (*always, partial(write_healthy_devices, self._root_dir, healthy), numbers):
            if write in always or found or read_node_devices(self._root_dir):
                try:
                    await asyncio.to_thread(write)
                except OSError as error:
                    _log.error("could not write how many devices there are", err=str(error))
