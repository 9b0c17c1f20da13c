"""The recorded life of a pod, and of its node's workflow, that move to another behaviour while they run."""

import asyncio
import json
import os
import signal
from functools import partial
from pathlib import Path
from typing import Any, Final

from temporalio.client import Client

from proto.pod_snapshot import PodSnapshot
from proto.temporal.names import node_workflow_id
from tests.node.containerd_view import container_pid
from tests.node.tempolet_node import TempoletNode, pod_manifest
from worker.behaviours.commitment import FILE, Behaviours, Commitment
from workflows.decide.versions import CURRENT, CURRENT_NODE, OLDEST_NODE

OFTEN: Final[dict[str, Any]] = {"syncFrequency": "1s"}
"""So that the worker soon looks for runs to raise after the commitment."""
BEFORE: Final = Behaviours(CURRENT - 1, max(CURRENT_NODE - 1, OLDEST_NODE))


def commit_before(place: Path) -> None:
    """Commit a node to the previous release's behaviour."""
    state = place / "kubelet" / "tempolet"
    state.mkdir(parents=True)
    (state / FILE).write_text(json.dumps({"pods": BEFORE.pods, "node": BEFORE.node}))


def raised(node: TempoletNode) -> None:
    """Running with the previous number, raised together with its node's workflow, then restarted under the new number."""
    node.apply(pod_manifest("pod", "sleep 3600"))
    snapshot = node.until_running("pod")
    Commitment(node.root_dir / "tempolet").commit()
    workflow_id = snapshot.workflow_id
    node.until(lambda: asyncio.run(runs(node, workflow_id)) == 2, "the pod's second run")
    node.until(lambda: asyncio.run(runs(node, node_workflow_id(node.name))) == 2, "the node's second run")
    for ended in range(2):
        known = node.until_pod("pod", partial(is_ready_after, ended))
        os.kill(container_pid(node.containerd, known.containers["main"].container_id), signal.SIGKILL)
    node.until_pod("pod", partial(is_ready_after, 2), "restarted in the second run")


def is_ready_after(restarts: int, snapshot: PodSnapshot) -> bool:
    """Return whether the pod is ready again after this many restarts."""
    return snapshot.ready and snapshot.restarts == restarts


async def runs(node: TempoletNode, workflow_id: str) -> int:
    """Count the runs of a workflow, as its newest run reports."""
    client: Client = await node.client()
    found = await client.get_workflow_handle(workflow_id).describe()
    first = found.raw_description.workflow_execution_info.first_run_id
    return 1 if first == found.run_id else 2
