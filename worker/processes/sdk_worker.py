"""The SDK's worker of one node: its queue, limits and build, and the interceptors around workflows and activities."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

from temporalio.client import Client
from temporalio.common import WorkerDeploymentVersion
from temporalio.worker import Interceptor, UnsandboxedWorkflowRunner, Worker, WorkerDeploymentConfig

from activities.execution.attempts import AttachingAttempts
from activities.execution.unexpected import UnexpectedErrors
from activities.hosted import activities
from activities.node_services import NodeServices
from proto.temporal.names import node_task_queue
from worker.delivery.task_timeouts import SHORTEST, taken_within
from worker.host.replays.build import DEPLOYMENT, build_id
from worker.host.temporal.activation_limit import extend_activation_limit
from workflows.node import NodeWorkflow
from workflows.pod import PodWorkflow

WORKFLOW_TASKS: Final = 8
"""Concurrent tasks: more would only queue on two cores, while Temporal counts their 3 s."""
ACTIVITIES: Final = 5000
"""Concurrent activities: slow pulls in 110 pods must leave room for every stop, and each probed container takes one."""
HEARTBEATS: Final = timedelta(seconds=2)
"""A cancellation reaches an activity with its next heartbeat."""
EAGER: Final = 16
SHUTDOWN_GRACE: Final = timedelta(seconds=5)
"""For running activities on a stop; below TimeoutStopSec of the unit."""


def pod_worker(  # noqa: PLR0913 - what a node has, and what is around its work
    client: Client,
    node: str,
    services: NodeServices,
    *,
    around: Sequence[Interceptor],
    more: Sequence[Interceptor] = (),
    timeout: timedelta = SHORTEST,
) -> Worker:
    """Create the Temporal worker of this node; interceptors `around` see each attempt, `more` each work of an activity.

    `timeout` is that of its workflow tasks.
    """
    interceptors = [
        *around,
        AttachingAttempts(services.running_actions, services.present_attempts),
        *more,
        UnexpectedErrors(),
    ]
    return node_worker(client, node, activities(services), interceptors, timeout=timeout)


def node_worker(
    client: Client,
    node: str,
    hosted: Sequence[Callable[..., Any]],
    interceptors: Sequence[Interceptor],
    *,
    timeout: timedelta = SHORTEST,
) -> Worker:
    """Create a worker of our workflows with these activities, within the limits of a node."""
    worker = Worker(
        client,
        task_queue=node_task_queue(node),
        deployment_config=deployment(),
        workflows=[NodeWorkflow, PodWorkflow],
        activities=hosted,
        workflow_runner=UnsandboxedWorkflowRunner(),  # the sandbox costs a sixth of its CPU at a 110-pod start; the tests have it
        interceptors=interceptors,
        max_concurrent_workflow_tasks=WORKFLOW_TASKS,
        max_concurrent_activities=ACTIVITIES,
        sticky_queue_schedule_to_start_timeout=taken_within(timeout),
        max_heartbeat_throttle_interval=HEARTBEATS,
        default_heartbeat_throttle_interval=HEARTBEATS,
        max_eager_activity_reservations_per_workflow_task=EAGER,
        graceful_shutdown_timeout=SHUTDOWN_GRACE,
    )
    return extend_activation_limit(worker)


def deployment() -> WorkerDeploymentConfig:
    """Return what Temporal shows of this build. Queues are not versioned: it allows 100 of them a version, which are 100 nodes."""
    return WorkerDeploymentConfig(WorkerDeploymentVersion(DEPLOYMENT, build_id()), use_worker_versioning=False)
