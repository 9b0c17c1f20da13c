"""What the worker process does for the node's pods periodically, with or without Temporal."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

from activities.clients.dra.dra_drivers import DRA_PLUGIN, DraDrivers
from proto.pod_snapshot import pod_folders
from proto.temporal.names import PRESSURE_JUDGED, STORAGE_EXCEEDED, node_workflow_id
from proto.temporal.signals import StorageExceeded
from worker.daemon.background import in_background
from worker.daemon.config import NodeConfig
from worker.daemon.freed_memory import giving_back_freed_memory
from worker.delivery.hardware_requests import HardwareRequests
from worker.delivery.pod_requests import PodRequests
from worker.delivery.workflow_signals import WorkflowSignals
from worker.devices.after_boot import DevicesAfterBoot
from worker.devices.of_this_node import NodeDevices
from worker.devices.plugins import DevicePlugins
from worker.events.event import TellOfNode
from worker.hardware.node_hardware import NodeHardware
from worker.host.csi.allocatable import keeping_allocatable
from worker.host.csi.republishing import republishing_volumes
from worker.host.csi.volume_expansion import expanding_volumes
from worker.host.csi.wanted_volumes import recording_wanted
from worker.host.local_storage import StorageWatch, watching_storage
from worker.host.log_rotation import LogRotator, keeping_logs_small
from worker.host.orphaned_pods import undoing_orphaned_pods
from worker.host.plugin_watch import watching_plugins
from worker.host.pressure.cleanups import Cleanups
from worker.host.pressure.decision_news import DecisionNews
from worker.host.pressure.evictions import EvictionParts, Evictions
from worker.host.pressure.oom_watch import OomWatch
from worker.host.shutdown.ending import Node, asking, pod_of
from worker.host.shutdown.node_shutdown import NodeShutdown, ShutdownDependencies
from worker.machine.boots import OF_DEVICES, Boots
from worker.machine.csi_endpoints import EndpointRecord
from worker.machine.shutdown_sign import ShutdownSign
from worker.processes.temporal_part import WorkerParts
from workflows.decide.eviction.limits import CONTAINER, EMPTY_DIR, POD
from workflows.decide.shutdown.periods import PRIORITY_GATE

if TYPE_CHECKING:
    from activities.clients.plugins.kinds import PluginKind, PluginKinds
    from activities.node_services import NodeServices
    from worker.processes.cluster_worker import ClusterWorker


def upkeep(parts: WorkerParts, dra: DraDrivers | None = None) -> Sequence[AbstractAsyncContextManager[None]]:
    """Return what nobody else waits for: plugins (`dra` takes those of DRA drivers), volumes, orphaned pods, logs and memory."""
    config, services, every = parts.config, parts.services, parts.config.sync_frequency
    rotator = LogRotator(services, config.container_logs, parts.cache.snapshots, parts.telemetry.metrics)
    return (
        watching_plugins(config.root_dir, partial(plugin_kinds, services, parts.device_plugins, dra)),
        in_background("record of CSI drivers", EndpointRecord(config.state_dir, services.csi).run),
        republishing_volumes(services, every),
        expanding_volumes(services, every) if services.api is not None else nullcontext(),
        keeping_allocatable(services) if services.api is not None else nullcontext(),
        recording_wanted(services) if services.api is not None else nullcontext(),
        undoing_orphaned_pods(services, every, parts.telemetry.metrics.operations.orphans_cleaned),
        keeping_logs_small(rotator),
        giving_back_freed_memory(every),
    )


def plugin_kinds(services: "NodeServices", device_plugins: DevicePlugins, dra: DraDrivers | None) -> "PluginKinds":
    """Return the kinds of plugins that register by a socket in `plugins_registry`."""
    from activities.volumes.csi.drivers.registration import CSI_PLUGIN, CsiPlugins  # noqa: PLC0415 - 3 MB, for whom has plugins
    from worker.devices.plugins_registry import DEVICE_PLUGIN, DevicePluginKind  # noqa: PLC0415 - the same

    kinds: dict[str, PluginKind] = {
        CSI_PLUGIN: CsiPlugins(services.csi),
        DEVICE_PLUGIN: DevicePluginKind(device_plugins),
    }
    return kinds | {DRA_PLUGIN: dra} if dra else kinds


def storage_limits(parts: WorkerParts, signals: WorkflowSignals) -> AbstractAsyncContextManager[None]:
    """Return what tells pods that they use more local storage than they may, if the node is configured to."""
    if not parts.config.local_storage_limits:
        return watching_storage(None)

    async def tell(workflow_id: str, hint: StorageExceeded) -> None:
        await signals.send(workflow_id, STORAGE_EXCEEDED, hint)

    def count(hint: StorageExceeded) -> None:
        parts.telemetry.metrics.evictions.evicted(EMPTY_DIR if hint.empty_dir else CONTAINER if hint.container else POD)

    storage = StorageWatch(parts.services, parts.cache.snapshots, tell, count)
    signals.deliveries.on_change(storage.tell_anew)
    return watching_storage(storage)


def evictions(
    parts: WorkerParts, requests: PodRequests, cleanups: Cleanups, *, tell: TellOfNode, signals: WorkflowSignals
) -> Sequence[AbstractAsyncContextManager[None]]:
    """Return what relieves the node under pressure, and tells its workflow of it; `tell` records events of the node."""
    workflow_id = node_workflow_id(parts.config.node_name)
    news = DecisionNews(partial(signals.send, workflow_id, PRESSURE_JUDGED))
    loop = Evictions(
        EvictionParts(
            config=parts.config,
            services=parts.services,
            pods=parts.cache.snapshots,
            requests=requests,
            cleanups=cleanups,
            tell=tell,
            counts=parts.telemetry.metrics.evictions,
            decided=news.tell,
        )
    )
    return in_background("eviction", loop.run), in_background("decisions", news.run)


def judging_devices(
    parts: WorkerParts, requests: PodRequests, devices: NodeDevices
) -> AbstractAsyncContextManager[None]:
    """Return what rejects pods of the API whose devices a boot has taken."""
    boots = Boots(parts.config.state_dir / OF_DEVICES)
    loop = DevicesAfterBoot(devices, boots, requests, parts.cache.snapshots)
    return in_background("devices after a boot", loop.run)


def asking_ledger(
    parts: WorkerParts, signals: WorkflowSignals, hardware: NodeHardware
) -> AbstractAsyncContextManager[None]:
    """Return what asks once which hardware the pods of this node were given, if a state file is lost."""
    if not hardware.awaits_ledger:
        return nullcontext()
    workflow_id = node_workflow_id(parts.config.node_name)
    requests = HardwareRequests(parts.node.client, signals.budget, signals.deliveries, workflow_id)

    async def run() -> None:
        given, here = await requests.given(), pod_folders(parts.config.root_dir)
        await hardware.take_ledger({uid: one for uid, one in given.items() if uid in here})

    return in_background("ledger of hardware", run)


def oom_kills(config: NodeConfig, tell: TellOfNode) -> AbstractAsyncContextManager[None]:
    """Return what tells that the machine is out of memory."""
    return in_background("kernel log", OomWatch(config.state_dir, tell).run)


def shutdowns(
    parts: WorkerParts, requests: PodRequests, tell: TellOfNode, cluster: "ClusterWorker | None"
) -> AbstractAsyncContextManager[None]:
    """Return what ends the pods before the machine goes down, if the node is configured to."""
    config = parts.config
    sign = ShutdownSign(config.state_dir)
    if not config.shutdown:
        sign.clear()
        return nullcontext()
    by_priority = config.feature_gates.enabled(PRIORITY_GATE)
    ending = ShutdownDependencies(
        node=Node(config.root_dir, parts.cache.snapshots, pod_of, asking(requests)),
        periods=config.shutdown,
        sign=sign,
        tell=tell,
        settled=cluster.settled if cluster else _nothing_to_wait_for,
        show=parts.telemetry.metrics.shut_down if by_priority else None,
    )
    return NodeShutdown(ending).running()


async def _nothing_to_wait_for() -> None:
    """Return at once: a standalone node writes its statuses nowhere."""
