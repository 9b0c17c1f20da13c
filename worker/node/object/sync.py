"""The part of the node process that keeps the Node object in sync: gathers the facts for `own_node`."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from activities.machine.node_capacity import storage_capacity
from activities.volumes.csi.records.in_use import volumes_in_use
from proto.kubernetes.resources.quantity import Quantity
from proto.node_devices import read_node_devices
from proto.volumes_in_use import in_use_folder, wanted_volumes, write_reported_volumes
from worker.daemon.config import NodeConfig
from worker.daemon.loop_restarts import restart_on_error
from worker.daemon.version import kubelet_version
from worker.machine.addresses import AddressesUnknown, node_addresses
from worker.machine.inotify import folder_changes
from worker.machine.machine import Machine, read_machine
from worker.machine.monotonic_clock import monotonic_now
from worker.machine.shutdown_sign import ShutdownSign
from worker.node.object.events import event_sender
from worker.node.object.features import declared_features
from worker.node.object.own_node import NodeCallbacks, OwnNode
from worker.node.object.status import NodeFacts, NodeSettings
from worker.node.pressure.watch import PressureWatch
from worker.node.process.dependencies import NodeDependencies
from worker.node.process.threads import in_node_thread
from worker.node.runtime.watch import RuntimeWatch
from worker.settings.reserved import with_thresholds
from workflows.decide.shutdown.words import NOT_READY

ADDRESSES_EVERY: Final = timedelta(minutes=1)
"""The status is computed every ten seconds; a name's address changes rarely, and each lookup may query DNS."""
LOOK_FOR_WANTED_EVERY: Final = timedelta(minutes=1)
"""Of a folder that cannot be watched."""

log = structlog.get_logger(__name__)


async def sync_node(deps: NodeDependencies) -> None:
    """Keep the Node in sync until cancelled."""
    machine = await in_node_thread(read_machine)
    sync_now = asyncio.Event()
    runtime = RuntimeWatch(deps.runtime, deps.cluster.most_images, sync_now.set)
    pressure = PressureWatch(deps.config, sync_now.set)
    facts = _Facts(deps, machine, runtime, pressure)
    reported = ReportedVolumes(deps.config.root_dir)
    callbacks = NodeCallbacks(facts.now, event_sender(deps), runtime.set_pod_cidrs, sync_now, reported.tell)
    node = OwnNode(deps, node_settings(deps.config), callbacks)
    await runtime.poll_once()
    await pressure.measure()
    async with asyncio.TaskGroup() as group:
        loops: dict[str, Callable[[], Awaitable[object]]] = {
            **runtime.loops,
            "pressure": pressure.run,
            "shutdowns": partial(follow_shutdowns, facts.shutdown, sync_now),
            "volumes to attach": partial(follow_wanted_volumes, deps.config.root_dir, sync_now),
            "object of the node": node.run,
        }
        for name, loop in loops.items():
            group.create_task(restart_on_error(name, loop), name=name)


async def follow_shutdowns(sign: ShutdownSign, sync_now: asyncio.Event) -> None:
    """Have the status computed when this machine begins to shut down, or goes on."""
    before = sign.is_set()
    async for is_set in sign.changes():
        if is_set != before:
            sync_now.set()
        before = is_set


async def follow_wanted_volumes(root_dir: Path, sync_now: asyncio.Event) -> None:
    """Have the status computed when a pod begins to wait for a volume."""
    before = wanted_volumes(root_dir)
    async for _ in folder_changes(in_use_folder(root_dir), LOOK_FOR_WANTED_EVERY):
        now = await in_node_thread(wanted_volumes, root_dir)
        if not now <= before:
            sync_now.set()
        before = now


class ReportedVolumes:
    """Tells the worker which volumes the API server knows to be in use."""

    def __init__(self, root_dir: Path) -> None:
        self._root_dir = root_dir
        self._told: frozenset[str] | None = None
        self._trouble = ""

    async def tell(self, names: Sequence[str]) -> None:
        """Tell it, if they are others than the last time; a failure is logged once, and tried again with the next status."""
        if (now := frozenset(names)) == self._told:
            return
        try:
            await in_node_thread(write_reported_volumes, self._root_dir, now)
        except OSError as error:
            if (trouble := str(error)) != self._trouble:
                log.warning("the worker can't be told of volumes in use: it mounts none that is attached", err=trouble)
                self._trouble = trouble
            return
        self._told, self._trouble = now, ""


def node_settings(config: NodeConfig) -> NodeSettings:
    """Return the configuration that appears in the Node."""
    assert config.cluster is not None
    serving = config.cluster.serving
    return NodeSettings(
        name=config.node_name,
        kubelet_version=kubelet_version(),
        max_pods=config.max_pods,
        port=serving.port if serving.enabled else 0,
        given_addresses=config.node_ips,
        external_cloud=config.cluster.external_cloud,
        declared_features=declared_features(config.feature_gates),
    )


class _Facts:
    """Facts about this machine, each refreshed as often as it may change."""

    def __init__(
        self, deps: NodeDependencies, machine: Machine, runtime: RuntimeWatch, pressure: PressureWatch
    ) -> None:
        self._runtime, self._pressure = runtime, pressure
        self._config, self._machine, self._processes = deps.config, machine, deps.processes
        self._addresses: tuple[str, ...] = ()
        self._addresses_until = 0.0
        self._storage: int | None = None
        self._trouble = ""
        self.shutdown = ShutdownSign(deps.config.state_dir)

    async def now(self) -> NodeFacts:
        """Return the current facts."""
        if time.monotonic() >= self._addresses_until:
            await self._find_addresses()
        if self._storage is None and self._config.local_storage_limits:
            with contextlib.suppress(OSError):
                self._storage = await in_node_thread(storage_capacity, self._config.root_dir)
        return NodeFacts(
            machine=self._machine,
            runtime=self._runtime.state,
            addresses=self._addresses,
            storage_bytes=self._storage,
            reserved=self._reserved(),
            devices=await in_node_thread(read_node_devices, self._config.root_dir),
            pressures=self._pressure.conditions,
            history_limited=self._config.tempolet.temporal.database_file is not None,
            troubles=(*self._processes.troubles(), *((NOT_READY,) if self.shutdown.is_set() else ())),
            failing_loops=await self._processes.failing_loops(),
            workflow_engine=await self._processes.workflow_engine(),
            volumes_in_use=tuple(await in_node_thread(volumes_in_use, self._config.root_dir)),
            found_at=monotonic_now(),
        )

    def _reserved(self) -> dict[str, Quantity]:
        config, memory = self._config, self._machine.memory_bytes
        return with_thresholds(config.reserved, config.eviction, memory, self._storage or 0).by_name()

    async def _find_addresses(self) -> None:
        trouble = ""
        try:
            self._addresses = await in_node_thread(node_addresses, self._config.node_ips, self._config.node_name)
        except AddressesUnknown as error:
            trouble = str(error)
        if trouble and trouble != self._trouble:
            log.error("the node's addresses are not known", err=trouble)
        self._trouble = trouble
        self._addresses_until = time.monotonic() + ADDRESSES_EVERY.total_seconds() if not trouble else 0.0
