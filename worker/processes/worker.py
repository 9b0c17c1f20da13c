"""The worker process, wired: one Temporal worker for one node, with everything its activities stand on.

Called by `tempolet worker`. In order: the node's lock, Temporal, what an earlier worker left in flight, then work. On a
stop no new task is taken, running activities get a moment to end, containers live on.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import structlog
from temporalio.client import Client
from temporalio.worker import Interceptor, UnsandboxedWorkflowRunner, Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from activities.execution.unexpected import UnexpectedErrors
from activities.hosted import activities
from activities.node_services import NodeServices
from proto.pod_snapshot import PodSnapshot
from proto.temporal.names import node_task_queue, node_workflow_id
from worker.daemon.api_access import kubeconfig_awaited, open_api
from worker.daemon.config import NodeConfig
from worker.daemon.freed_memory import giving_back_freed_memory
from worker.daemon.node_client import node_client, place_of
from worker.daemon.node_lock import hold_node_lock, hold_node_name
from worker.daemon.service import Service
from worker.host.csi_republishing import republishing_volumes
from worker.host.departures import Departures
from worker.host.image_access import count_pulls
from worker.host.local_storage import StorageWatch, hinting, watching_storage
from worker.host.log_rotation import LogRotator, keeping_logs_small
from worker.host.orphaned_volumes import unmounting_orphaned_volumes
from worker.host.plugin_watch import watching_plugins
from worker.host.pod_cache import PodCache, publishing
from worker.host.pod_numbers import PodNumbers
from worker.host.takeover import take_over
from worker.host.thread_room import make_room_for_hung_files
from worker.processes.services import node_services
from worker.telemetry.process import Telemetry, open_telemetry
from workflows.node import NodeWorkflow
from workflows.pod import PodWorkflow
from workflows.versions import CURRENT

if TYPE_CHECKING:
    from activities.clients.api_server.api_server import ApiServer
    from worker.processes.api_side import ApiSide

PASSED_THROUGH: Final = ("proto", "workflows", "kubernetes", "pydantic", "pydantic_core", "yaml", "dateutil", "urllib3")
"""Read once a process instead of once a workflow (design §4.16): 6 ms and a megabyte each."""
WORKFLOW_TASKS: Final = 8
"""At a time: more would queue on two cores until the deadlock detector took them for stuck."""
ACTIVITIES: Final = 5000
"""At a time: a slow pull in each of 110 pods must leave room for every stop, and each container that is probed takes one."""
STICKY: Final = timedelta(seconds=1)
"""How long a workflow task waits for a worker that is gone (design §4.7; the default of 10 s is what a crash would cost)."""
HEARTBEATS: Final = timedelta(seconds=2)
"""A cancel reaches an activity with its next heartbeat."""
EAGER: Final = 16
BUILD: Final = f"behaviour-{CURRENT}"
"""What Temporal shows of this worker; left out, the SDK would hash the code of every module at each start."""
LAST_MOMENT: Final = timedelta(seconds=5)
"""What running activities get on a stop; below TimeoutStopSec of the unit."""

_log: Final = structlog.get_logger(__name__)


async def run_worker(config: NodeConfig) -> None:
    """Work for this node until asked to stop; raises NodeLockHeld when another worker does."""
    with hold_node_lock(config.root_dir):
        async with Service(well) as service, open_telemetry(config, "worker", well) as telemetry:
            client = await node_client(
                config, service, role="worker", runtime=telemetry.runtime, plugins=telemetry.plugins
            )
            if client is not None and await kubeconfig_awaited(config, service):
                with hold_node_name("worker", config.node_name, place_of(client)):
                    async with open_api(config, "worker", telemetry.metrics.api_request) as api:
                        await work(config, client, service, telemetry, api=api)


def well() -> str:
    """Give nothing: a loop that is stuck is seen from outside it, and nothing else here is mended by a restart."""
    return ""


async def work(
    config: NodeConfig, client: Client, service: Service, telemetry: Telemetry, *, api: "ApiServer | None" = None
) -> None:
    """Take over what an earlier worker had begun, then host workflows and activities until asked to stop."""
    make_room_for_hung_files()
    side, timings = _api_side(api, config) if api else None, telemetry.metrics.timings()
    services = node_services(config, telemetry.calls, api=api, side=side, timings=timings)
    count_pulls(services, config, telemetry.metrics.images)
    await asyncio.to_thread(services.cgroups.make_tiers)
    with PodCache(config.root_dir, whole_pods=config.cluster is not None) as cache:
        numbers = PodNumbers(cache, telemetry.metrics)
        numbers.show_probes(services.probes.result_counts)
        snapshots = Departures(services.terminating, cache, numbers)
        publish = side.hearing(snapshots.publish) if side else snapshots.publish
        worker = pod_worker(config, client, services, publish, more=side.interceptors if side else ())
        drivers = watching_plugins(config.root_dir, services.csi)
        rotator = LogRotator(services, config.container_logs, cache.snapshots, telemetry.metrics)
        every = config.sync_frequency
        republishing, orphans = republishing_volumes(services, every), unmounting_orphaned_volumes(services, every)
        storage = StorageWatch(services, cache.snapshots, hinting(client)) if config.local_storage_limits else None
        loops = keeping_logs_small(rotator), watching_storage(storage), giving_back_freed_memory(every)
        at_work = side.at_work(cache.snapshots, client, services.csi) if side else contextlib.nullcontext()
        async with drivers, republishing, orphans, at_work, worker, loops[0], loops[1], loops[2]:
            known = [node_workflow_id(config.node_name), *(one.workflow_id for one in cache.snapshots())]
            freed = await take_over(client, config.node_name, client.identity, known)
            _log.info("worker started", node=config.node_name, taken_over=freed)
            service.ready(f"working for node {config.node_name}")
            await service.stop_requested()
    if services.pull_rights:
        await services.pull_rights.flushed()
    await services.runtime.close()


def _api_side(api: "ApiServer", config: NodeConfig) -> "ApiSide":
    from worker.processes.api_side import ApiSide  # noqa: PLC0415 - it brings an HTTP client, 10 MB for which a standalone node has no use

    return ApiSide(api, config)


def pod_worker(
    config: NodeConfig,
    client: Client,
    services: NodeServices,
    publish: Callable[[PodSnapshot], None],
    *,
    more: Sequence[Interceptor] = (),
) -> Worker:
    """Make the Temporal worker of this node; `publish` is given every snapshot, from any thread."""
    return Worker(
        client,
        task_queue=node_task_queue(config.node_name),
        build_id=BUILD,
        workflows=[NodeWorkflow, PodWorkflow],
        activities=activities(services),
        workflow_runner=UnsandboxedWorkflowRunner(),  # with our rooms passed through, the sandbox guards nothing here
        interceptors=[publishing(publish), *more, UnexpectedErrors()],
        max_concurrent_workflow_tasks=WORKFLOW_TASKS,
        max_concurrent_activities=ACTIVITIES,
        sticky_queue_schedule_to_start_timeout=STICKY,
        max_heartbeat_throttle_interval=HEARTBEATS,
        default_heartbeat_throttle_interval=HEARTBEATS,
        max_eager_activity_reservations_per_workflow_task=EAGER,
        graceful_shutdown_timeout=LAST_MOMENT,
    )


def sandbox_runner() -> SandboxedWorkflowRunner:
    """Run workflows in the SDK's sandbox, with our own rooms passed through: for tests and replays.

    The worker itself goes without: a sixth of its CPU at a 110-pod start, for a guard that sees none of our code.
    """
    return SandboxedWorkflowRunner(restrictions=SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH))
