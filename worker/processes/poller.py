"""The poller process: reads manifests and the runtime, starts and signals workflows.

Called by `tempolet poller`. It holds no state that a restart would lose: desired pods are in the manifests or the API,
known ones in Temporal, the runtime and the worker's snapshots. Each loop survives a Temporal or containerd that is
down; one that fails for another reason is restarted, and that is told.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog
from temporalio.client import Client

from activities.clients.runtime import RuntimeClient
from activities.clients.start_limit import StartLimit
from proto.node_runtime import NodeRuntime
from proto.temporal.names import PodWorkflowId
from proto.temporal.pod import NodeSettings
from worker.behaviours.commitment import Commitment
from worker.daemon.api_access import open_api
from worker.daemon.config import NodeConfig
from worker.daemon.health import LoopHealth
from worker.daemon.loop_restarts import restart_on_error
from worker.daemon.node_lock import hold_node_lock, hold_node_name
from worker.daemon.service import Service
from worker.delivery.client import SocketLead
from worker.delivery.server import socket_path
from worker.delivery.task_timeouts import task_timeout
from worker.documents.manifest_refusal import LARGEST_FILE
from worker.machine.shutdown_sign import ShutdownSign
from worker.payloads.sending import SendingConverter
from worker.poller.admission.exclusive_hardware import ExclusiveHardware
from worker.poller.admission.preemptions import Preemptions
from worker.poller.calls.first_decisions import FirstDecisions
from worker.poller.calls.open_workflows import is_pod_of
from worker.poller.calls.pod_workflows import SENDER, PodWorkflows
from worker.poller.manifests.awaited_devices import AwaitedDevices
from worker.poller.manifests.manifest import NodeOfManifests, read_manifest
from worker.poller.manifests.manifest_folder import Listing, ManifestFolder
from worker.poller.manifests.manifest_pods import ManifestPods
from worker.poller.manifests.refused_manifests import RefusedManifests
from worker.poller.manifests.shutdowns import StartedAnew, refusing_at_shutdown
from worker.poller.manifests.sources import ManifestSource
from worker.poller.manifests.static_pod import SOURCE, URL_SOURCE, Refused, StaticPod
from worker.poller.manifests.url_source import UrlSource
from worker.poller.node_pods import NodePods, may_be_listed
from worker.poller.node_settings import node_settings
from worker.poller.object_watch import ObjectWatch
from worker.poller.resizes.allocated_pods import AllocatedPods
from worker.poller.resizes.dependencies import ResizeDependencies
from worker.poller.resizes.resizes import Resizes
from worker.poller.resizes.settings import resize_settings
from worker.poller.runtime.health import RuntimeHealth
from worker.poller.runtime.known_pods import KnownPods
from worker.poller.runtime.orphaned_pods import OrphanedPods, remover
from worker.poller.runtime.unused_tickets import UnusedTickets
from worker.poller.runtime.watch import RuntimeWatch, WatchDependencies
from worker.processes.poller_admission import admission_alone, hardware_policies, preemptions_for
from worker.processes.resync import Resync, ResyncDependencies
from worker.telemetry.metrics import Metrics
from worker.telemetry.process import Telemetry
from worker.temporal.signal_numbers import signal_numbers
from worker.temporal.temporal_client import place_of
from worker.tickets.tickets import Tickets

if TYPE_CHECKING:
    from activities.clients.api_server.api_server import ApiServer
    from worker.poller.cluster.cluster_pods import ClusterPods

_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PollerMonitoring:
    """Health and telemetry of the poller itself; tests may leave them out."""

    health: LoopHealth = field(default_factory=LoopHealth)
    telemetry: Telemetry | None = None


async def run_poller(
    config: NodeConfig, client: Client, service: Service, watching: PollerMonitoring | None = None
) -> None:
    """Run until `service` is asked to stop; raises NodeLockHeld if this node has a poller already."""
    with hold_node_lock(config.root_dir, "poller"), hold_node_name("poller", config.node_name, place_of(client)):
        measure = watching.telemetry.metrics.api_request if watching and watching.telemetry else None
        async with open_api(config, "poller", measure) as api:
            poller = Poller(config, client, service, watching or PollerMonitoring(), api=api)
            loops = asyncio.create_task(poller.run())
            stop = asyncio.create_task(service.stop_requested())
            try:
                await asyncio.wait({loops, stop}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                stop.cancel()
                loops.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await loops


class Poller:
    """All parts of one node's poller."""

    def __init__(
        self,
        config: NodeConfig,
        client: Client,
        service: Service,
        watching: PollerMonitoring,
        *,
        api: "ApiServer | None" = None,
    ) -> None:
        node = config.node_name
        self._config, self._service, self._health, self._api = config, service, watching.health, api
        self._node = NodeOfManifests(node, config.feature_gates, cluster=config.cluster is not None)
        telemetry = watching.telemetry
        calls = (telemetry.calls,) if telemetry else ()
        metrics = telemetry.metrics if telemetry else Metrics(node)
        self._runtime = RuntimeClient(config.container_runtime_endpoint, StartLimit(1), calls)
        self._known = KnownPods(config.root_dir, node)
        commitment = Commitment(config.state_dir)
        commitment.settle()
        lead = SocketLead(socket_path(config.state_dir), SendingConverter())
        numbers, tickets = signal_numbers(config.state_dir, SENDER), Tickets(config.state_dir)
        self._workflows = PodWorkflows(
            client,
            node,
            numbers,
            commitment,
            tickets=tickets,
            lead=lead,
            task_timeout=task_timeout(service.started_in),
        )
        self._refused_manifests = RefusedManifests(config.root_dir)
        settings = node_settings(config)
        sources = (SOURCE, URL_SOURCE) if config.manifest_url.url else (SOURCE,)
        self._shutdown = ShutdownSign(config.state_dir)
        self._resizes = Resizes(self._resize_dependencies(metrics))
        self._manifest_pods = ManifestPods(
            self._workflows, node, settings, self._refused_manifests.set_start, sources=sources
        )
        self._manifest_pods.resizes = self._resizes
        preemptions = preemptions_for(
            config, settings, self._known, requests=self._workflows.requests, counted=metrics.preempted
        )
        self._cluster = self._join(api, settings, preemptions) if api else None
        admission = (
            self._cluster.admission
            if self._cluster
            else admission_alone(config, settings, self._known, preemptions, present=self._manifest_pods.present)
        )
        admission.in_use = self._resizes.in_use
        admission.hardware = ExclusiveHardware(hardware_policies(config), self._workflows.hardware.admit)
        self._resizes.room = admission
        self._awaited_devices = AwaitedDevices(config.root_dir, self._manifest_pods.look_again, admission.is_advertised)
        self._manifest_pods.why_waits = self._awaited_devices.why_waits
        self._manifest_pods.admit = refusing_at_shutdown(self._shutdown, admission.admit)
        metrics.on_read(partial(self._count, metrics))
        self._pods = NodePods(self._manifest_pods, self._cluster.pods if self._cluster else None)
        self._resizes.on_change = self._pods.resized
        self._runtime_health = RuntimeHealth(self._runtime, config.root_dir, self._show)
        is_listed = partial(may_be_listed, self._known, self._pods)
        self._orphaned_pods = OrphanedPods(
            self._runtime, self._workflows, remover(config), is_listed, count=metrics.relists.orphan_found
        )
        dependencies = WatchDependencies(
            node=node,
            client=self._runtime,
            known=self._known,
            sources=self._pods,
            workflows=self._workflows,
            health=self._runtime_health,
            metrics=metrics,
        )
        self._watch = RuntimeWatch(dependencies)
        self._objects = ObjectWatch(config.objects_dir, self._known, self._workflows)
        self._pods_listed: int | None = None
        compared = ResyncDependencies(
            config=config,
            workflows=self._workflows,
            pods=self._pods,
            known=self._known,
            watch=self._watch,
            orphaned=self._orphaned_pods,
            unused=UnusedTickets(tickets, self._workflows, node, is_listed),
            health=self._health,
            cluster=self._cluster,
        )
        self._resync = Resync(compared)
        self._workflows.hardware.absent = self._resync.node_absent
        self._workflows.deliveries.on_change(self._tell_anew)
        self._first_decisions = FirstDecisions(self._is_undecided, self._pods.tell_anew)
        self._workflows.started = self._first_decisions.started

    async def run(self) -> None:
        """Run all loops until cancelled; one that fails is restarted."""
        try:
            async with asyncio.TaskGroup() as loops:
                for name, loop in self._loops().items():
                    loops.create_task(restart_on_error(name, loop), name=name)
        finally:
            self._first_decisions.close()
            await self._pods.close()
            await self._orphaned_pods.close()
            await self._runtime.close()

    def _loops(self) -> dict[str, Callable[[], Awaitable[None]]]:
        every = self._config.sync_frequency
        loops = self._cluster.loops() if self._cluster else {}
        if self._config.manifest_url.url:
            loops["manifest URL"] = self._list_url
        if not self._cluster:  # on a cluster the objects are in the API, and the worker follows them
            turned = partial(self._health.turn, "objects", every)
            loops["objects"] = partial(self._objects.follow, every.total_seconds(), turned)
        return loops | {
            "manifests": self._list_manifests,
            "hints": self._watch.send_hints,
            "events": self._watch.follow_events,
            "relist": self._watch.relist,
            "resync": self._resync.run,
            "runtime": self._runtime_health.watch,
            "node": self._resync.configure_node,
            "resizes": self._resizes.run,
            "devices": self._awaited_devices.run,
            "leads": self._workflows.deliveries.follow,
            "shutdowns": StartedAnew(self._shutdown, self._known, self._manifest_pods).run,
        }

    def _tell_anew(self, workflow_ids: Collection[str]) -> None:
        """Tell everything again to the pods whose lead has changed: the former one may have taken it."""
        pods = [one for one in workflow_ids if is_pod_of(self._config.node_name, one)]
        undecided = self._first_decisions.undecided() if self._workflows.deliveries.led_by_worker else []
        self._pods.tell_anew([*pods, *undecided])
        self._watch.tell_anew(pods)
        self._objects.tell_anew(pods)
        self._resync.tell_anew(workflow_ids)

    def _is_undecided(self, workflow_id: str) -> bool:
        uid = PodWorkflowId.parse(workflow_id).uid
        return self._known.of(uid) is None and self._pods.may_list(uid)

    async def _list_manifests(self) -> None:
        """Follow the manifest folder; without one, list nothing, so that pods listed before are deleted."""
        await self._resync.learn_open_pods()
        if self._config.static_pod_path is None:
            self._take_folder_listing(Listing())
            return
        folder = ManifestFolder(self._config.static_pod_path, self._read, await asyncio.to_thread(self._holders))
        every = self._config.file_check_frequency
        self._health.turn("manifests", every)
        async with contextlib.aclosing(ManifestSource(folder, every).listings()) as listings:
            async for listing in listings:
                self._health.turn("manifests", every)
                self._take_folder_listing(listing)

    async def _list_url(self) -> None:
        """Follow the URL of static pods."""
        from activities.clients.manifest_url import ManifestUrl  # noqa: PLC0415 - an HTTP client, needed only with such a URL

        said = self._config.manifest_url
        fetch = ManifestUrl(said.url, said.headers, most_bytes=LARGEST_FILE)
        async with contextlib.aclosing(UrlSource(said.url, fetch, said.every, self._node).listings()) as listings:
            async for listing in listings:
                self._pass_on_listing(listing, URL_SOURCE)

    def _count(self, metrics: Metrics) -> None:
        """Set the gauges of what is listed."""
        metrics.manifests_refused(len(self._refused_manifests.refusals))
        metrics.relists.mirrors_wanted(self._cluster.mirrors_wanted() if self._cluster else 0)

    def _pass_on_listing(self, listing: Listing, source: str) -> None:
        self._manifest_pods.set_listing(listing, source)
        if self._cluster:
            self._cluster.look_again()
        self._refused_manifests.set_listed(listing.refusals, source)

    def _take_folder_listing(self, listing: Listing) -> None:
        self._pass_on_listing(listing, SOURCE)
        first, self._pods_listed = self._pods_listed is None, len(listing.pods)
        if first:
            self._service.ready(f"{self._pods_listed} pods listed")
        self._show(self._runtime_health.known)

    def _join(self, api: "ApiServer", settings: NodeSettings, preemptions: Preemptions) -> "ClusterPods":
        """Add what a node of a cluster has besides its manifests."""
        from worker.poller.cluster.cluster_pods import ClusterDependencies, ClusterPods  # noqa: PLC0415 - loads an HTTP client, which a standalone node does not need

        dependencies = ClusterDependencies(
            self._workflows,
            self._known,
            settings,
            self._refused_manifests.set_start,
            self._manifest_pods,
            self._resizes,
            preemptions,
        )
        return ClusterPods(api, self._config, dependencies)

    def _resize_dependencies(self, metrics: Metrics) -> ResizeDependencies:
        return ResizeDependencies(
            allocated=AllocatedPods(self._config.root_dir),
            settings=resize_settings(self._config),
            snapshot=self._known.of,
            present=lambda: self._cluster.present() if self._cluster else self._manifest_pods.present(),
            sources_ready=lambda: self._pods.listed,
            shuts_down=self._shutdown.is_set,
            counts=metrics.resizes,
        )

    def _holders(self) -> dict[str, str]:
        """Return which file gave which pod before this poller started."""
        return {
            f"{pod.namespace}/{pod.name}": pod.path
            for pod in self._known.all().values()
            if pod.source == SOURCE and pod.path and not pod.deleting
        }

    def _read(self, path: Path, data: bytes, now: datetime) -> StaticPod | Refused:
        return read_manifest(path, data, self._node, now)

    def _show(self, runtime: NodeRuntime | None) -> None:
        """Update the one-line status in `systemctl status`."""
        words = ["manifests not read yet" if self._pods_listed is None else f"{self._pods_listed} pods listed"]
        if refused := len(self._refused_manifests.refusals):
            words.append(f"{refused} refused")
        if runtime and not (runtime.ready and runtime.network_ready):
            words.append(f"{runtime.reason}: {runtime.message}")
        self._service.status(", ".join(words))
