"""Differences between the runtime and the pods' snapshots: the backstop for the event stream.

`differences` compares a listing of the runtime with the snapshots, once a minute while events flow, once a second
without an event stream, and after each reconnect. Only ends count: creations and starts are tempolet's own, and
reported by the activity that did them.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from proto.cri.labels import CONTAINER_NAME, POD_NAME, POD_NAMESPACE, POD_UID
from proto.cri.ownership import HOOK_LABEL, is_of_node
from proto.cri.v1 import api_pb2 as cri
from proto.pod_snapshot import PodSnapshot
from proto.temporal.names import PodWorkflowId
from proto.temporal.pod import ContainerState
from proto.temporal.signals import RuntimeChanged
from worker.poller.calls.open_workflows import is_pod_of


@dataclass(frozen=True, slots=True)
class RuntimePod:
    """Everything the runtime has of one of our pods."""

    workflow_id: str
    uid: str
    sandboxes: tuple[cri.PodSandbox, ...]
    containers: tuple[cri.Container, ...]


def our_pods(
    node: str, sandboxes: Iterable[cri.PodSandbox], containers: Sequence[cri.Container], folders: Collection[str] = ()
) -> dict[str, RuntimePod]:
    """Group a listing by pod UID; what is not this node's, or lacks a pod's labels, is left out.

    `folders` has the UIDs of the pods with a folder in --root-dir: those of a kubelet that was here before are ours.
    """
    inside: dict[str, list[cri.Container]] = defaultdict(list)
    for container in containers:
        if HOOK_LABEL in container.labels:
            continue
        inside[container.pod_sandbox_id].append(container)
    by_uid: dict[str, list[cri.PodSandbox]] = defaultdict(list)
    for sandbox in sandboxes:
        uid = sandbox.labels.get(POD_UID, "")
        if is_of_node(sandbox.annotations, uid, node, folders) and workflow_id_of(node, sandbox.labels):
            by_uid[uid].append(sandbox)
    return {
        uid: RuntimePod(
            workflow_id=workflow_id_of(node, found[0].labels),
            uid=uid,
            sandboxes=tuple(found),
            containers=tuple(container for sandbox in found for container in inside[sandbox.id]),
        )
        for uid, found in by_uid.items()
    }


def only_remembered(pods: Mapping[str, RuntimePod], snapshots: Mapping[str, PodSnapshot]) -> dict[str, RuntimePod]:
    """Return the pods of which the runtime has nothing and this node still has folders: logs, volumes, a snapshot."""
    return {
        uid: RuntimePod(workflow_id=snapshot.workflow_id, uid=uid, sandboxes=(), containers=())
        for uid, snapshot in snapshots.items()
        if uid not in pods
    }


def workflow_id_of(node: str, labels: Mapping[str, str]) -> str:
    """Return the workflow id that a sandbox or container belongs to, by its labels; empty if they name no pod."""
    parts = [labels.get(one, "") for one in (POD_NAMESPACE, POD_NAME, POD_UID)]
    found = str(PodWorkflowId(node, *parts))
    return found if all(parts) and is_pod_of(node, found) else ""


def differences(
    pods: Mapping[str, RuntimePod], snapshots: Mapping[str, PodSnapshot], source: str
) -> dict[str, RuntimeChanged]:
    """Return the signals for workflows that should read the runtime, by workflow id."""
    hints = {}
    for uid in pods.keys() | snapshots.keys():
        pod, snapshot = pods.get(uid), snapshots.get(uid)
        exited = _ends(pod.containers if pod else (), snapshot)
        lost = snapshot is not None and snapshot.sandbox_ready and not _is_ready(snapshot.sandbox_id, pod)
        if exited or lost:
            workflow_id = snapshot.workflow_id if snapshot else pod.workflow_id if pod else ""
            hints[workflow_id] = RuntimeChanged(source, exited=tuple(exited), sandbox_lost=lost)
    return hints


def _ends(containers: Sequence[cri.Container], snapshot: PodSnapshot | None) -> list[str]:
    """List the containers that have ended or vanished and are not known to have ended."""
    known = snapshot.containers if snapshot else {}
    running = {container.id for container in containers if container.state != cri.CONTAINER_EXITED}
    ends = [
        one.container_id
        for one in known.values()
        if one.container_id and one.state != ContainerState.EXITED and one.container_id not in running
    ]
    for container in containers:
        newest = known.get(container.labels.get(CONTAINER_NAME, ""))
        newer = newest is None or not newest.container_id or container.metadata.attempt > newest.attempt
        if container.state == cri.CONTAINER_EXITED and newer and container.id not in ends:
            ends.append(container.id)
    return sorted(ends)


def _is_ready(sandbox_id: str, pod: RuntimePod | None) -> bool:
    found = [one for one in pod.sandboxes if one.id == sandbox_id] if pod else []
    return bool(found) and found[0].state == cri.SANDBOX_READY
