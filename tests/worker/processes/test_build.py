"""Does Temporal show which build runs a pod, without sending any task elsewhere for it? And is the digest that of the code?

On a real Temporal; two workers of different builds serve one queue in turn.
"""

import uuid
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Final

import pytest
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, ListWorkerDeploymentsRequest
from temporalio.client import Client
from temporalio.common import WorkerDeploymentVersion
from temporalio.worker import UnsandboxedWorkflowRunner, Worker, WorkerDeploymentConfig

from activities.execution.attempts import AttachingAttempts
from proto.temporal import names
from tests.workflows.conftest import Node, client, pod_json
from tests.workflows.model_runtime import ModelRuntime
from worker.host.pod_cache import publishing
from worker.host.replays import build
from worker.processes.sdk_worker import deployment
from workflows.decide.versions import CURRENT
from workflows.pod import PodWorkflow

__all__ = ["client"]  # a fixture
OTHER: Final = "behaviour-0-of-another-release"


def worker(node: Node, version: WorkerDeploymentConfig) -> Worker:
    """Work for the node as a release would."""
    return Worker(
        node.client,
        task_queue=names.node_task_queue(node.name),
        workflows=[PodWorkflow],
        activities=node.runtime.activities(),
        workflow_runner=UnsandboxedWorkflowRunner(),
        interceptors=[
            publishing(node.publish, node.running.received, node.keep, node.end),
            AttachingAttempts(node.running, node.present),
        ],
        deployment_config=version,
    )


async def polling_builds(node: Node) -> set[tuple[str, str]]:
    """Return deployment and build of each worker that Temporal lists for the node's queue."""
    request = DescribeTaskQueueRequest(
        namespace=node.client.namespace,
        task_queue=TaskQueue(name=names.node_task_queue(node.name)),
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
    )
    found = await node.client.workflow_service.describe_task_queue(request)
    return {(one.deployment_options.deployment_name, one.deployment_options.build_id) for one in found.pollers}


async def test_the_build_is_shown_and_routes_nothing(client: Client) -> None:
    """A pod goes on with whichever build works for its node; the history has the build of each task."""
    node = Node(client, f"n{uuid.uuid4().hex[:8]}", ModelRuntime())
    ours = deployment()
    other = replace(ours, version=WorkerDeploymentVersion(ours.version.deployment_name, OTHER))
    pod = pod_json()
    handle = node.newest(pod)
    for restarts, version in enumerate((ours, other, ours)):
        async with worker(node, version):
            if restarts:
                await node.exits(handle, "web", 1)
            else:
                await node.start(pod)
            await node.until(pod, lambda one, count=restarts: one.ready and one.restarts == count)  # type: ignore[misc]  # the default binds it
            if version is other:
                assert ("tempolet", OTHER) in await polling_builds(node)
    tasks = [
        one.workflow_task_completed_event_attributes
        for one in (await handle.fetch_history()).events
        if one.HasField("workflow_task_completed_event_attributes")
    ]
    builds = [one.worker_version.build_id for one in tasks]
    assert {one.worker_deployment_name for one in tasks} == {"tempolet"}
    assert list(dict.fromkeys(builds)) == [build.build_id(), OTHER]
    assert builds[-1] == build.build_id()
    described = (await handle.describe()).raw_description.workflow_execution_info
    assert described.most_recent_worker_version_stamp.build_id == build.build_id()
    assert not described.HasField("versioning_info")
    listed = await client.workflow_service.list_worker_deployments(
        ListWorkerDeploymentsRequest(namespace=client.namespace)
    )
    assert not listed.worker_deployments
    async with worker(node, ours):
        await node.delete(handle)


def test_the_digest_changes_with_each_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its content and its name; the build id has the newest behaviour, too."""
    digest = build.digest.__wrapped__
    known = {digest()}
    assert known == {build.digest()}
    monkeypatch.setattr(build, "proto", SimpleNamespace(__file__=str(tmp_path / "__init__.py"), __name__="proto"))
    for name, content in [("a.py", "1"), ("a.py", "2"), ("b.py", ""), ("c.py", "2")]:
        (tmp_path / name).write_text(content)
        known.add(digest())
    assert len(known) == 5
    assert build.build_id() == f"behaviour-{CURRENT}-{build.digest()[:12]}"
