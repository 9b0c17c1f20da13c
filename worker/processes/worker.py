"""The worker process: one Temporal worker for one node, with everything its activities need.

Called by `tempolet worker`. It takes the node's lock, connects to Temporal, fails the attempts of an earlier worker,
then works. On a stop no new task is taken, running activities get a moment to finish, and containers keep running.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog
from temporalio.client import Client
from temporalio.worker import Interceptor, UnsandboxedWorkflowRunner, Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from activities.execution.attempts import AttachingAttempts
from activities.execution.unexpected import UnexpectedErrors
from activities.hosted import activities
from activities.node_services import NodeServices
from proto.pod_snapshot import PodSnapshot
from proto.temporal.names import STORAGE_EXCEEDED, node_task_queue, node_workflow_id
from worker.behaviours.commitment import Commitment
from worker.behaviours.raising import Raising, raising_behaviours
from worker.daemon.api_access import kubeconfig_awaited, open_api
from worker.daemon.background import in_background
from worker.daemon.config import NodeConfig
from worker.daemon.freed_memory import giving_back_freed_memory
from worker.daemon.node_client import node_client
from worker.daemon.node_lock import hold_node_lock, hold_node_name
from worker.daemon.service import Service
from worker.delivery.lead import Lead, TemporalLeads
from worker.delivery.server import LeadServer, socket_path
from worker.delivery.workflow_signals import SENDER, WorkflowSignals
from worker.host.bounded_threads import install_bounded_thread_pool
from worker.host.csi_republishing import republishing_volumes
from worker.host.current_readiness import CurrentReadiness
from worker.host.image_access import count_pulls
from worker.host.local_storage import StorageWatch, watching_storage
from worker.host.log_rotation import LogRotator, keeping_logs_small
from worker.host.orphaned_volumes import unmounting_orphaned_volumes
from worker.host.plugin_watch import watching_plugins
from worker.host.pod_cache import PodCache, publishing
from worker.host.pod_metrics import PodMetrics
from worker.host.temporal.history_limit import limiting_history
from worker.host.temporal.lost_attempts import LostAttempts, failing_lost_attempts
from worker.host.temporal.paused_activities import PausedActivities, watching_paused_activities
from worker.host.temporal.takeover import take_over
from worker.host.terminating_pods import TerminationTracker
from worker.payloads.receiving import ReceivingConverter
from worker.processes.services import node_services
from worker.settings.tempolet_configuration import AT_START
from worker.telemetry.process import Telemetry, open_telemetry
from worker.temporal.call_budget import CallBudget
from worker.temporal.signal_numbers import signal_numbers
from worker.temporal.temporal_client import place_of
from workflows.decide.versions import CURRENT
from workflows.loops.node_loop import NodeLoop
from workflows.loops.operator_requests import REQUESTS
from workflows.loops.pod_loop import PodLoop
from workflows.node import NodeWorkflow
from workflows.pod import PodWorkflow

if TYPE_CHECKING:
    from activities.clients.api_server.api_server import ApiServer
    from worker.processes.cluster_worker import ClusterWorker

PASSED_THROUGH: Final = ("proto", "workflows", "kubernetes", "pydantic", "pydantic_core", "yaml", "dateutil", "urllib3")
"""Modules imported once a process instead of once a workflow: 6 ms and a megabyte each."""
WORKFLOW_TASKS: Final = 8
"""Concurrent tasks: more would queue on two cores until the deadlock detector reported them."""
ACTIVITIES: Final = 5000
"""Concurrent activities: slow pulls in 110 pods must leave room for every stop, and each probed container takes one."""
STICKY: Final = timedelta(seconds=1)
"""How long a workflow task waits for a worker that is gone; the SDK's default would cost 10 s after a crash."""
HEARTBEATS: Final = timedelta(seconds=2)
"""A cancellation reaches an activity with its next heartbeat."""
EAGER: Final = 16
MESSAGE_SHAPES: Final = {
    **NodeLoop.signal_shapes,
    **PodLoop.signal_shapes,
    **{name: request.shape for name, request in REQUESTS.items()},
}
"""The type of each signal's and Update's value, by its name."""
BUILD: Final = f"behaviour-{CURRENT}"
"""What Temporal shows of this worker; without it, the SDK would hash the code of every module at each start."""
SHUTDOWN_GRACE: Final = timedelta(seconds=5)
"""For running activities on a stop; below TimeoutStopSec of the unit."""

_log: Final = structlog.get_logger(__name__)


async def run_worker(config: NodeConfig) -> None:
    """Work for this node until asked to stop; raises NodeLockHeld if another worker does, and CommitmentTooOld."""
    with hold_node_lock(config.root_dir):
        Commitment(config.state_dir).settle(at_start=config.tempolet.behaviour.commit == AT_START)
        async with Service(always_healthy) as service, open_telemetry(config, "worker", always_healthy) as telemetry:
            client = await node_client(
                config, service, role="worker", runtime=telemetry.runtime, plugins=telemetry.plugins
            )
            if client is not None and await kubeconfig_awaited(config, service):
                with hold_node_name("worker", config.node_name, place_of(client)):
                    async with open_api(config, "worker", telemetry.metrics.api_request) as api:
                        await work(config, client, service, telemetry, api=api)


def always_healthy() -> str:
    """Return no reason for a restart: the watchdog itself notices a stuck loop."""
    return ""


async def work(
    config: NodeConfig, client: Client, service: Service, telemetry: Telemetry, *, api: "ApiServer | None" = None
) -> None:
    """Fail the attempts of an earlier worker, then run workflows and activities until asked to stop."""
    install_bounded_thread_pool()
    cluster, timings = _cluster_worker(api, config) if api else None, telemetry.metrics.timings()
    with PodCache(config.root_dir, whole_pods=config.cluster is not None) as cache:
        readiness = CurrentReadiness(cache.snapshots())
        services = node_services(
            config, telemetry.calls, api=api, cluster=cluster, timings=timings, readiness=readiness.probed
        )
        count_pulls(services, config, telemetry.metrics.images)
        await asyncio.to_thread(services.cgroups.make_tiers)
        numbers = PodMetrics(cache, telemetry.metrics)
        numbers.show_probes(services.probes.result_counts)
        snapshots = TerminationTracker(services.terminating, cache, numbers)
        publish = cluster.observe(snapshots.publish) if cluster else snapshots.publish
        readiness.pass_on(publish)
        worker = pod_worker(config, client, services, readiness.publish, more=cluster.interceptors if cluster else ())
        drivers = watching_plugins(config.root_dir, services.csi)
        rotator = LogRotator(services, config.container_logs, cache.snapshots, telemetry.metrics)
        every = config.sync_frequency
        republishing, orphans = republishing_volumes(services, every), unmounting_orphaned_volumes(services, every)
        loops = keeping_logs_small(rotator), giving_back_freed_memory(every)
        lead = TemporalLeads()
        signals = WorkflowSignals(client, CallBudget(), signal_numbers(config.state_dir, SENDER), lead)
        services.probes.tell_verdict = signals.tell_verdict
        calling = _calling_temporal(config, client, services, cache, signals=signals)
        leads = answering_who_leads(config, lead, signals)
        history = limiting_history(client, config.tempolet, telemetry.metrics.history)
        api_loops = cluster.running(cache.snapshots, signals, services.csi) if cluster else contextlib.nullcontext()
        async with drivers, republishing, orphans, api_loops, worker, loops[0], loops[1], calling, leads, history:
            known = [node_workflow_id(config.node_name), *(one.workflow_id for one in cache.snapshots())]
            taken = await take_over(client, config.node_name, client.identity, known)
            _log.info("worker started", node=config.node_name, taken_over=taken.attempts)
            service.ready(f"working for node {config.node_name}")
            lost = LostAttempts(
                client, services.present_attempts, cache.snapshots, node_workflow=known[0], unknown=taken.unknown
            )
            async with failing_lost_attempts(lost):
                await service.stop_requested()
    if services.pull_rights:
        await services.pull_rights.flushed()
    await services.runtime.close()


@contextlib.asynccontextmanager
async def _calling_temporal(
    config: NodeConfig,
    client: Client,
    services: NodeServices,
    cache: PodCache,
    *,
    signals: WorkflowSignals,
) -> AsyncIterator[None]:
    """Run the loops that call Temporal while the block runs; they share the process's budget of calls."""
    every, budget = config.sync_frequency, signals.budget
    storage = None
    if config.local_storage_limits:
        storage = StorageWatch(services, cache.snapshots, lambda one, hint: signals.send(one, STORAGE_EXCEEDED, hint))
        signals.deliveries.on_change(storage.tell_anew)
    raising = Raising(client, config.node_name, Commitment(config.state_dir), budget=budget)
    paused = PausedActivities(client, config.node_name, cache.snapshots, root_dir=config.root_dir, budget=budget)
    async with (
        watching_storage(storage),
        raising_behaviours(raising, every),
        watching_paused_activities(paused, every),
    ):
        yield


@contextlib.asynccontextmanager
async def answering_who_leads(config: NodeConfig, lead: Lead, signals: WorkflowSignals) -> AsyncIterator[None]:
    """Answer other processes who leads which pod, and follow it in this one, while the block runs."""
    server = LeadServer(lead, ReceivingConverter(), MESSAGE_SHAPES)
    async with (
        in_background("the worker's socket", partial(server.serve, socket_path(config.state_dir))),
        in_background("leads", signals.deliveries.follow),
    ):
        yield


def _cluster_worker(api: "ApiServer", config: NodeConfig) -> "ClusterWorker":
    from worker.processes.cluster_worker import ClusterWorker  # noqa: PLC0415 - loads an HTTP client of 10 MB, which a standalone node does not need

    return ClusterWorker(api, config)


def pod_worker(
    config: NodeConfig,
    client: Client,
    services: NodeServices,
    publish: Callable[[PodSnapshot], None],
    *,
    more: Sequence[Interceptor] = (),
) -> Worker:
    """Create the Temporal worker of this node; `publish` gets every snapshot, from any thread."""
    return Worker(
        client,
        task_queue=node_task_queue(config.node_name),
        build_id=BUILD,
        workflows=[NodeWorkflow, PodWorkflow],
        activities=activities(services),
        workflow_runner=UnsandboxedWorkflowRunner(),  # all our packages would be passed through, so the sandbox would check nothing
        interceptors=[
            publishing(publish, services.running_actions.settled),
            AttachingAttempts(services.running_actions, services.present_attempts),
            *more,
            UnexpectedErrors(),
        ],
        max_concurrent_workflow_tasks=WORKFLOW_TASKS,
        max_concurrent_activities=ACTIVITIES,
        sticky_queue_schedule_to_start_timeout=STICKY,
        max_heartbeat_throttle_interval=HEARTBEATS,
        default_heartbeat_throttle_interval=HEARTBEATS,
        max_eager_activity_reservations_per_workflow_task=EAGER,
        graceful_shutdown_timeout=SHUTDOWN_GRACE,
    )


def sandbox_runner() -> SandboxedWorkflowRunner:
    """Return the SDK's sandbox with our packages passed through: for tests and replays.

    The worker itself runs without: the sandbox would cost a sixth of its CPU at a 110-pod start, and check none of our
    code.
    """
    return SandboxedWorkflowRunner(restrictions=SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH))
