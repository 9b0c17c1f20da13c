"""The worker process: one Temporal worker for one node, with everything its activities need.

Called by `tempolet worker`. It takes the node's lock and serves its loops, with or without Temporal; workflows and activities
are hosted whenever Temporal answers (`hosting.py`). On a stop no new task is taken, running activities get a moment to finish,
and containers keep running.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from temporalio.client import Client
from temporalio.common import WorkerDeploymentVersion
from temporalio.worker import Interceptor, UnsandboxedWorkflowRunner, Worker, WorkerDeploymentConfig
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from activities.execution.attempts import AttachingAttempts
from activities.execution.unexpected import UnexpectedErrors
from activities.hosted import activities
from activities.node_services import NodeServices
from proto.temporal.names import STORAGE_EXCEEDED, node_task_queue, node_workflow_id
from proto.temporal.signals import StorageExceeded
from worker.behaviours.commitment import Commitment
from worker.daemon.api_access import kubeconfig_awaited, open_api
from worker.daemon.background import in_background
from worker.daemon.config import NodeConfig
from worker.daemon.freed_memory import giving_back_freed_memory
from worker.daemon.node_client import TEMPORAL, NodeClient, node_client
from worker.daemon.node_lock import hold_node_lock, hold_node_name
from worker.daemon.service import Service
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
from worker.host.replays.build import DEPLOYMENT, build_id
from worker.host.replays.replay_check import REPLAYS, CheckDependencies, ReplayCheck
from worker.host.temporal.activation_limit import extend_activation_limit
from worker.host.temporal.node_name import NodeName
from worker.host.temporal.refused_runs import RefusedRuns, ending_refused_runs
from worker.host.terminating_pods import TerminationTracker
from worker.processes.hosting import Hosting, HostingDependencies
from worker.processes.pod_leads import LeadDependencies, PodLeads
from worker.processes.services import node_services
from worker.settings.tempolet_configuration import AT_START
from worker.stand_in.hand_back.handing_back import HandingBack
from worker.telemetry.process import Telemetry, open_telemetry
from worker.telemetry.process_state import PROCESS, state_of
from worker.telemetry.workflow_engine import WORKFLOW_ENGINE, as_text
from worker.temporal.call_budget import CallBudget
from worker.temporal.keys import KeyFile
from worker.temporal.signal_numbers import signal_numbers
from worker.temporal.temporal_client import place_of
from worker.tickets.gate import Refusals
from worker.tickets.guard import TicketGuard, know_pods
from worker.tickets.seal import TicketSeal
from worker.tickets.tickets import Tickets
from workflows.node import NodeWorkflow
from workflows.pod import PodWorkflow

if TYPE_CHECKING:
    from activities.clients.api_server.api_server import ApiServer
    from worker.processes.cluster_worker import ClusterWorker

PASSED_THROUGH: Final = ("proto", "workflows", "kubernetes", "pydantic", "pydantic_core", "yaml", "dateutil", "urllib3")
"""Modules imported once a process instead of once a workflow: 6 ms and a megabyte each."""
WORKFLOW_TASKS: Final = 8
"""Concurrent tasks: more would only queue on two cores, while Temporal counts their 3 s."""
ACTIVITIES: Final = 5000
"""Concurrent activities: slow pulls in 110 pods must leave room for every stop, and each probed container takes one."""
STICKY: Final = timedelta(seconds=1)
"""How long a workflow task waits for a worker that is gone; the SDK's default would cost 10 s after a crash."""
HEARTBEATS: Final = timedelta(seconds=2)
"""A cancellation reaches an activity with its next heartbeat."""
EAGER: Final = 16
LEADS: Final = "leads"
SHUTDOWN_GRACE: Final = timedelta(seconds=5)
"""For running activities on a stop; below TimeoutStopSec of the unit."""


async def run_worker(config: NodeConfig) -> None:
    """Work for this node until asked to stop; raises NodeLockHeld if another worker does, and CommitmentTooOld."""
    with hold_node_lock(config.root_dir):
        Commitment(config.state_dir).settle(at_start=config.tempolet.behaviour.commit == AT_START)
        async with Service(always_healthy) as service, open_telemetry(config, "worker", always_healthy) as telemetry:
            node = await node_client(
                config, service, role="worker", runtime=telemetry.runtime, plugins=telemetry.plugins
            )
            with hold_node_name("worker", config.node_name, place_of(node.client)):
                if await kubeconfig_awaited(config, service):
                    async with open_api(config, "worker", telemetry.metrics.api_request) as api:
                        await work(config, node, service, telemetry, api=api)


def always_healthy() -> str:
    """Return no reason for a restart: the watchdog itself notices a stuck loop."""
    return ""


async def work(
    config: NodeConfig, node: NodeClient, service: Service, telemetry: Telemetry, *, api: "ApiServer | None" = None
) -> None:
    """Do what needs no Temporal, and run workflows and activities whenever Temporal answers, until asked to stop."""
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
        tickets = Tickets(config.state_dir)
        guard = TicketGuard(tickets, TicketSeal(KeyFile(config.payload_key_file), node.client.namespace))
        await asyncio.to_thread(know_pods, tickets, config.node_name, cache.snapshots())
        budget, more = CallBudget(), cluster.interceptors if cluster else ()
        refused = RefusedRuns(node.client, config.node_name, budget)
        refusals = Refusals(telemetry.metrics.activity_refused, refused.add)
        name = NodeName(node.client, config.node_name, partial(tickets.of, node_workflow_id(config.node_name)))
        check = ReplayCheck(
            CheckDependencies(
                node=config.node_name,
                state_dir=config.state_dir,
                key_file=config.payload_key_file,
                runtime=telemetry.runtime,
                lead=lambda workflow_id, why: leads.lead_instead(workflow_id, why),  # noqa: PLW0108 - made below
                note=partial(service.note, about=REPLAYS),
                count=telemetry.metrics.history_replayed,
            )
        )
        hosting = Hosting(
            HostingDependencies(
                config=config,
                node=node,
                service=service,
                name=name,
                worker=lambda client: pod_worker(config, client, services, around=around, more=more),
                compare=lambda client: leads.compare(client, budget),
                shut=lambda: leads.shut(),  # noqa: PLW0108 - made below
                cache=cache,
                present=services.present_attempts,
                budget=budget,
                show_history=telemetry.metrics.history,
                replay=check.run,
            )
        )
        leads = PodLeads(
            LeadDependencies(
                config=config,
                services=services,
                tickets=tickets,
                seal=guard.seal,
                publish=readiness.publish,
                interceptors=more,
                temporal=HandingBack(node.client, is_ours=name.is_ours),
                name=name,
                is_hosted=lambda: hosting.is_running,
                is_replaying=lambda: check.is_running,
                note=partial(service.note, about=LEADS),
            )
        )
        telemetry.texts[WORKFLOW_ENGINE] = lambda: as_text(leads.engine())
        telemetry.texts[PROCESS] = lambda: state_of(service, hosts=hosting.is_running)
        telemetry.metrics.show_workflow_engine(leads.engine)
        loop = asyncio.get_running_loop()
        around = (
            publishing(
                guard.only_of_leaders(
                    readiness.publish,
                    leads.fence.say,
                    refused=lambda *run: loop.call_soon_threadsafe(refused.add, *run),
                ),
                leads.received,
                leads.keep,
                leads.end,
            ),
            leads.fence.interceptor(),
            *guard.interceptors(services.present_attempts, refusals),
            *leads.noticing,
        )
        drivers = watching_plugins(config.root_dir, services.csi)
        rotator = LogRotator(services, config.container_logs, cache.snapshots, telemetry.metrics)
        every = config.sync_frequency
        republishing, orphans = republishing_volumes(services, every), unmounting_orphaned_volumes(services, every)
        loops = keeping_logs_small(rotator), giving_back_freed_memory(every)
        signals = WorkflowSignals(node.client, budget, signal_numbers(config.state_dir, SENDER), leads.answers)
        services.probes.tell_verdict = signals.tell_verdict
        storage = None
        if config.local_storage_limits:
            storage = StorageWatch(services, cache.snapshots, partial(_tell_storage_exceeded, signals))
            signals.deliveries.on_change(storage.tell_anew)
        api_loops = cluster.running(cache.snapshots, signals, services.csi) if cluster else contextlib.nullcontext()
        async with contextlib.AsyncExitStack() as running:
            for part in (
                drivers,
                republishing,
                orphans,
                api_loops,
                leads.running(),
                in_background(LEADS, signals.deliveries.follow),
                in_background(TEMPORAL, hosting.run),
                ending_refused_runs(refused),
                *loops,
                watching_storage(storage),
            ):
                await running.enter_async_context(part)
            service.ready(f"working for node {config.node_name}")
            await service.stop_requested()
    if services.pull_rights:
        await services.pull_rights.flushed()
    await services.runtime.close()


async def _tell_storage_exceeded(signals: WorkflowSignals, workflow_id: str, hint: StorageExceeded) -> None:
    await signals.send(workflow_id, STORAGE_EXCEEDED, hint)


def _cluster_worker(api: "ApiServer", config: NodeConfig) -> "ClusterWorker":
    from worker.processes.cluster_worker import ClusterWorker  # noqa: PLC0415 - loads an HTTP client of 10 MB, which a standalone node does not need

    return ClusterWorker(api, config)


def pod_worker(
    config: NodeConfig,
    client: Client,
    services: NodeServices,
    *,
    around: Sequence[Interceptor],
    more: Sequence[Interceptor] = (),
) -> Worker:
    """Create the Temporal worker of this node; interceptors `around` see each attempt, `more` each work of an activity."""
    interceptors = [
        *around,
        AttachingAttempts(services.running_actions, services.present_attempts),
        *more,
        UnexpectedErrors(),
    ]
    return node_worker(client, config.node_name, activities(services), interceptors)


def node_worker(
    client: Client, node: str, hosted: Sequence[Callable[..., Any]], interceptors: Sequence[Interceptor]
) -> Worker:
    """Create a worker of our workflows with these activities, within the limits of a node."""
    worker = Worker(
        client,
        task_queue=node_task_queue(node),
        deployment_config=deployment(),
        workflows=[NodeWorkflow, PodWorkflow],
        activities=hosted,
        workflow_runner=UnsandboxedWorkflowRunner(),  # all our packages would be passed through, so the sandbox would check nothing
        interceptors=interceptors,
        max_concurrent_workflow_tasks=WORKFLOW_TASKS,
        max_concurrent_activities=ACTIVITIES,
        sticky_queue_schedule_to_start_timeout=STICKY,
        max_heartbeat_throttle_interval=HEARTBEATS,
        default_heartbeat_throttle_interval=HEARTBEATS,
        max_eager_activity_reservations_per_workflow_task=EAGER,
        graceful_shutdown_timeout=SHUTDOWN_GRACE,
    )
    return extend_activation_limit(worker)


def deployment() -> WorkerDeploymentConfig:
    """Return what Temporal shows of this build. Queues are not versioned: it allows 100 of them a version, which are 100 nodes."""
    return WorkerDeploymentConfig(WorkerDeploymentVersion(DEPLOYMENT, build_id()), use_worker_versioning=False)


def sandbox_runner() -> SandboxedWorkflowRunner:
    """Return the SDK's sandbox with our packages passed through: for tests and replays.

    The worker itself runs without: the sandbox would cost a sixth of its CPU at a 110-pod start, and check none of our
    code.
    """
    return SandboxedWorkflowRunner(restrictions=SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH))
