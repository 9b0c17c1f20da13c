"""The worker process: one Temporal worker for one node, with everything its activities need.

Called by `tempolet worker`. It takes the node's lock and serves its loops, with or without Temporal (`upkeep.py`); workflows and
activities are hosted whenever Temporal answers (`temporal_part.py`). On a stop no new task is taken, running activities get a moment to
finish, and containers keep running.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from functools import partial
from typing import TYPE_CHECKING

from activities.machine.cgroup_hierarchies import Hierarchies
from activities.machine.cgroups import Cgroups
from activities.machine.process_cgroups import ProcessCgroups
from activities.node_services import NodeServices
from proto.pod_snapshot import PodSnapshot, pod_folders
from worker.behaviours.commitment import Commitment
from worker.daemon.api_access import kubeconfig_awaited, open_api
from worker.daemon.config import NodeConfig
from worker.daemon.node_client import NodeClient, node_client, temporal_settings
from worker.daemon.node_lock import hold_node_lock, hold_node_name, own_processes
from worker.daemon.service import Service
from worker.delivery.pod_requests import PodRequests
from worker.hardware.of_this_node import HardwareOfThisNode, exclusive_hardware
from worker.hardware.runtime_containers import RuntimeContainers
from worker.hardware.unread_containers import UnreadContainers
from worker.host.bounded_threads import install_bounded_thread_pool
from worker.host.cgroups.node_allocatable import PodsLimit, keeping_pods_limit, limit_reserved_cgroups, limits_of_pods
from worker.host.cgroups.system_cgroups import moving_processes
from worker.host.cgroups.tier_limits import Reservation, TierLimits
from worker.host.current_readiness import CurrentReadiness
from worker.host.image_access import count_pulls
from worker.host.pod_cache import PodCache
from worker.host.pod_metrics import PodMetrics
from worker.host.pressure.cleanups import Cleanups
from worker.host.terminating_pods import TerminationTracker
from worker.machine.kernel_tunables import settle_kernel_tunables
from worker.processes.cgroup_driver import cgroup_driver_settled
from worker.processes.services import node_services, pods_cgroups
from worker.processes.temporal_part import TemporalPart, WorkerParts
from worker.processes.upkeep import (
    asking_ledger,
    evictions,
    judging_devices,
    oom_kills,
    shutdowns,
    storage_limits,
    upkeep,
)
from worker.settings.kubelet.feature_gates import HEALTH_MESSAGE_GATE, MEMORY_QOS_GATE, RESOURCE_HEALTH_GATE
from worker.settings.reserved import allocatable
from worker.settings.tempolet_configuration import AT_START
from worker.telemetry.kubelet.activity_counts import ActivityCounts
from worker.telemetry.process import Telemetry, open_telemetry
from worker.temporal.connect_errors import refuse_unusable
from worker.temporal.temporal_client import connect_options, place_of
from worker.tickets.guard import know_pods
from worker.tickets.tickets import Tickets

if TYPE_CHECKING:
    from activities.clients.api_server.api_server import ApiServer
    from worker.processes.cluster_worker import ClusterWorker


async def run_worker(config: NodeConfig) -> None:
    """Work for this node until asked to stop; raises NodeLockHeld, TemporalMisconfigured, CommitmentTooOld, and what `settled_names` raises."""
    with hold_node_lock(config.root_dir):
        refuse_unusable(dict(connect_options(temporal_settings(config))))  # a typo, before the runtime is waited for
        Commitment(config.state_dir).settle(at_start=config.tempolet.behaviour.commit == AT_START)
        records = HardwareRecords()
        async with Service(always_healthy) as service, open_telemetry(config, "worker", records.health) as telemetry:
            if not await cgroup_driver_settled(config, service, telemetry.calls):
                return
            settle_kernel_tunables(protect=config.protect_kernel_defaults)
            node = await node_client(
                config, service, role="worker", runtime=telemetry.runtime, plugins=telemetry.plugins
            )
            with hold_node_name("worker", config.node_name, place_of(node.client)):
                cgroups = pods_cgroups(config, telemetry.metrics.timings())
                await asyncio.to_thread(cgroups.make_tiers)  # before anything is waited for, as healthz waits for them
                hardware = await records.read(config, telemetry, cgroups)
                if await kubeconfig_awaited(config, service):
                    async with open_api(config, "worker", telemetry.metrics.api_request) as api:
                        await work(config, node, service, telemetry, cgroups=cgroups, chosen=hardware, api=api)


def always_healthy() -> str:
    """Return no reason for a restart: the watchdog itself notices a stuck loop."""
    return ""


class HardwareRecords:
    """What is on disk of exclusive hardware; it may refuse the start, so nobody may take the worker for healthy before it is read."""

    def __init__(self) -> None:
        self._are_read = False

    async def read(self, config: NodeConfig, telemetry: Telemetry, cgroups: Cgroups) -> HardwareOfThisNode:
        """Return what chooses hardware; raises ConfigurationRefused."""
        folders = partial(pod_folders, config.root_dir)
        known = RuntimeContainers(config.container_runtime_endpoint, config.node_name, folders, cgroups.is_guaranteed)
        managers, left, unread = telemetry.metrics.resource_managers, known.left, UnreadContainers(known)
        found = await asyncio.to_thread(
            exclusive_hardware, config, managers, known, left, devices_left=known.with_devices, unread=unread
        )
        self._are_read = True
        return found

    def health(self) -> str:
        """Return why the worker is not healthy; nothing of it needs a restart."""
        return "" if self._are_read else "starting: the records of exclusive hardware are not read yet"


async def work(  # noqa: PLR0913 - the parts of the process
    config: NodeConfig,
    node: NodeClient,
    service: Service,
    telemetry: Telemetry,
    *,
    cgroups: Cgroups,
    chosen: HardwareOfThisNode,
    api: "ApiServer | None" = None,
) -> None:
    """Do what needs no Temporal, and run workflows and activities whenever Temporal answers, until asked to stop."""
    install_bounded_thread_pool()
    cluster = _cluster_worker(api, config, telemetry) if api else None
    with PodCache(config.root_dir, whole_pods=config.cluster is not None) as cache:
        readiness, tickets = CurrentReadiness(cache.snapshots()), Tickets(config.state_dir)
        if cluster and config.feature_gates.enabled(RESOURCE_HEALTH_GATE):
            with_messages = config.feature_gates.enabled(HEALTH_MESSAGE_GATE)
            cluster.tell_health_of(chosen.devices, cache.pod, with_messages=with_messages)
        services = node_services(
            config,
            telemetry.calls,
            cgroups=cgroups,
            hardware=chosen.hardware,
            api=api,
            cluster=cluster,
            timings=telemetry.metrics.timings(),
            readiness=readiness.probed,
        )
        count_pulls(services, config, telemetry.metrics.images)
        pods_limit = await asyncio.to_thread(_enforced, services, config, cluster)
        await asyncio.to_thread(know_pods, tickets, config.node_name, cache.snapshots())
        numbers = PodMetrics(cache, telemetry.metrics)
        numbers.show_probes(services.probes.result_counts)
        cleanups, tiers = Cleanups(), _tier_limits(config, services, cache)
        readiness.pass_on(tiers.after(cleanups.after(_readers_of_snapshots(services, cache, numbers, cluster))))
        parts = WorkerParts(
            config=config,
            node=node,
            service=service,
            telemetry=telemetry,
            services=services,
            device_plugins=chosen.devices.plugins,
            cache=cache,
            readiness=readiness,
            tickets=tickets,
            interceptors=(ActivityCounts(telemetry.metrics.steps, numbers), *(cluster.interceptors if cluster else ())),
        )
        temporal = TemporalPart(parts)
        temporal.show()
        api_loops = cluster.running(cache.snapshots, temporal.signals, services.csi) if cluster else nullcontext()
        storage = storage_limits(parts, temporal.signals)
        tell = cluster.tell_of_node if cluster else _tell_nobody
        requests = PodRequests(node.client, temporal.signals.budget, temporal.signals.deliveries)
        pressure = evictions(parts, requests, cleanups, tell=tell, signals=temporal.signals)
        shutdown = shutdowns(parts, requests, tell, cluster)
        async with AsyncExitStack() as running:
            for part in (
                *_cgroup_loops(config, pods_limit),
                tiers.keeping(),
                *chosen.loops(services.runtime, cache.snapshots),
                asking_ledger(parts, temporal.signals, chosen.hardware),
                *upkeep(parts, cluster.claims.drivers if cluster else None),
                api_loops,
                *temporal.running(),
                storage,
                *pressure,
                oom_kills(config, tell),
                judging_devices(parts, requests, chosen.devices) if cluster else nullcontext(),
                shutdown,
            ):
                await running.enter_async_context(part)
            service.ready(f"working for node {config.node_name}")
            await service.stop_requested()
    if services.pull_rights:
        await services.pull_rights.flushed()
    await services.runtime.close()


def _enforced(services: NodeServices, config: NodeConfig, cluster: "ClusterWorker | None") -> PodsLimit:
    """Limit the cgroups of the node's services, and return the limit of all pods; raises ConfigurationRefused."""
    cgroups, tell = services.cgroups.node, cluster.tell_of_node if cluster else _tell_nobody
    protect = config.feature_gates.enabled(MEMORY_QOS_GATE)
    limit_reserved_cgroups(cgroups, config.enforcement, tell, protect=protect)
    return PodsLimit(cgroups, partial(limits_of_pods, config.enforcement, config.reserved), tell)


def _tier_limits(config: NodeConfig, services: NodeServices, cache: PodCache) -> TierLimits:
    """Return the limits of the QoS classes, by what Node Allocatable leaves to pods."""
    reservation = None
    if config.qos_reserved is not None:
        reservation = Reservation(config.qos_reserved, lambda: allocatable(config.reserved).memory_bytes)
    return TierLimits(services.cgroups.node, reservation, cache.snapshots)


def _cgroup_loops(config: NodeConfig, pods_limit: PodsLimit) -> Sequence[AbstractAsyncContextManager[None]]:
    """Return what keeps the limit of all pods, and the node's processes in their cgroups."""
    cgroups, own = ProcessCgroups(Hierarchies.of_this_node()), partial(own_processes, config.root_dir)
    return keeping_pods_limit(pods_limit), moving_processes(config.agent, cgroups, own)


def _tell_nobody(*_: str) -> None:
    """Drop an event: a standalone node has no API to send it to. It is in the log."""


def _readers_of_snapshots(
    services: NodeServices, cache: PodCache, numbers: PodMetrics, cluster: "ClusterWorker | None"
) -> Callable[[PodSnapshot], None]:
    """Return what takes each snapshot: the cache, the metrics, and in a cluster statuses and events."""
    publish = TerminationTracker(services.terminating, cache, numbers).publish
    return cluster.observe(publish) if cluster else publish


def _cluster_worker(api: "ApiServer", config: NodeConfig, telemetry: Telemetry) -> "ClusterWorker":
    from worker.processes.cluster_worker import ClusterWorker  # noqa: PLC0415 - loads an HTTP client of 10 MB, which a standalone node does not need

    return ClusterWorker(api, config, telemetry.metrics)
