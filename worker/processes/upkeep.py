"""What the worker process does for the node's pods periodically, with or without Temporal."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial

from proto.temporal.names import STORAGE_EXCEEDED
from proto.temporal.signals import StorageExceeded
from worker.daemon.background import in_background
from worker.daemon.freed_memory import giving_back_freed_memory
from worker.delivery.pod_requests import PodRequests
from worker.delivery.workflow_signals import WorkflowSignals
from worker.host.csi_republishing import republishing_volumes
from worker.host.local_storage import StorageWatch, watching_storage
from worker.host.log_rotation import LogRotator, keeping_logs_small
from worker.host.orphaned_pods import undoing_orphaned_pods
from worker.host.plugin_watch import watching_plugins
from worker.host.pressure.cleanups import Cleanups
from worker.host.pressure.evictions import EvictionParts, Evictions, Tell
from worker.processes.temporal_part import WorkerParts


def upkeep(parts: WorkerParts) -> Sequence[AbstractAsyncContextManager[None]]:
    """Return what nobody else waits for: CSI drivers, volumes, orphaned pods, logs and memory."""
    config, services, every = parts.config, parts.services, parts.config.sync_frequency
    rotator = LogRotator(services, config.container_logs, parts.cache.snapshots, parts.telemetry.metrics)
    return (
        watching_plugins(config.root_dir, services.csi),
        republishing_volumes(services, every),
        undoing_orphaned_pods(services, every),
        keeping_logs_small(rotator),
        giving_back_freed_memory(every),
    )


def storage_limits(parts: WorkerParts, signals: WorkflowSignals) -> AbstractAsyncContextManager[None]:
    """Return what tells pods that they use more local storage than they may, if the node is configured to."""
    if not parts.config.local_storage_limits:
        return watching_storage(None)
    tell = partial(_tell_storage_exceeded, signals)
    storage = StorageWatch(parts.services, parts.cache.snapshots, tell)
    signals.deliveries.on_change(storage.tell_anew)
    return watching_storage(storage)


def evictions(
    parts: WorkerParts, signals: WorkflowSignals, cleanups: Cleanups, tell: Tell
) -> AbstractAsyncContextManager[None]:
    """Return what relieves the node under pressure; `tell` records events of the node."""
    requests = PodRequests(parts.node.client, signals.budget, signals.deliveries)
    loop = Evictions(
        EvictionParts(
            config=parts.config,
            services=parts.services,
            pods=parts.cache.snapshots,
            requests=requests,
            cleanups=cleanups,
            tell=tell,
        )
    )
    return in_background("eviction", loop.run)


async def _tell_storage_exceeded(signals: WorkflowSignals, workflow_id: str, hint: StorageExceeded) -> None:
    await signals.send(workflow_id, STORAGE_EXCEEDED, hint)
