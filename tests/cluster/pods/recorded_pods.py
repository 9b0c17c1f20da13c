"""Lives of an API server's pods, for `record_histories`: creation, changes, deletion."""

import os
import signal
from collections.abc import Callable
from typing import Any, Final

from proto.pod_snapshot import PodSnapshot
from proto.temporal.names import EVICT_POD, OBJECTS_CHANGED
from proto.temporal.operator import EvictPod, PodEvicted
from proto.temporal.signals import ObjectsChanged
from tests.cluster.cluster_node import ClusterNode, pods_path
from tests.node.containerd_view import container_pid
from tests.node.images.pull_nodes import pulling, served
from tests.node.tempolet_node import BUSYBOX, pod_manifest, wait

ENDS_WHEN_ASKED: Final = "trap 'exit 0' TERM; while :; do sleep 0.1; done"
GATE: Final = "example.com/lb"
PATH: Final = pods_path(name="pod")
STRATEGIC: Final = "application/strategic-merge-patch+json"


def bare(command: str = "sleep 3600", **spec: Any) -> dict[str, Any]:
    """Build a pod without a service account token."""
    return pod_manifest("pod", command, **{"automountServiceAccountToken": False, **spec})


def until(node: ClusterNode, holds: Callable[[PodSnapshot], Any], what: str) -> PodSnapshot:
    """Wait until the pod's snapshot satisfies a condition."""

    def now() -> PodSnapshot | None:
        return next((one for one in node.snapshots() if holds(one)), None)

    snapshot: PodSnapshot = node.until(now, what)
    return snapshot


def run(node: ClusterNode, manifest: dict[str, Any]) -> PodSnapshot:
    """Create a pod and wait until it runs and is ready, also in the API."""
    node.create_pod(manifest)
    node.until_pod_ready("pod")
    return until(node, lambda one: one.ready, "running")


def kill(node: ClusterNode, snapshot: PodSnapshot) -> None:
    """Kill its container."""
    os.kill(container_pid(node.containerd, snapshot.containers["main"].container_id), signal.SIGKILL)


def delete(node: ClusterNode, grace: int) -> None:
    """Delete the pod as kubectl does, and wait until nothing of it is left."""
    node.api.delete(PATH, gracePeriodSeconds=grace)
    node.until_pod_gone("pod")


def patch_status(node: ClusterNode, **status: Any) -> None:
    """Write to the pod's status as a controller does."""
    node.api.call("PATCH", f"{PATH}/status", {"status": status}, kind=STRATEGIC)


def main_status(status: Any) -> dict[str, Any]:
    """Return the status of the container main."""
    found: dict[str, Any] = next(one for one in status["containerStatuses"] if one["name"] == "main")
    return found


def plain(node: ClusterNode) -> None:
    """Created, running, and deleted with a grace period of which its container needs a part."""
    run(node, bare(ENDS_WHEN_ASKED))
    delete(node, grace=5)


def finished(node: ClusterNode) -> None:
    """Succeeded, and its workflow stays open until it is deleted."""
    node.create_pod(bare("exit 0", restartPolicy="Never"))
    node.until_api_pod("pod", lambda pod: pod["status"]["phase"] == "Succeeded")
    until(node, lambda one: one.lifecycle == "terminated", "its end")
    delete(node, grace=30)


def rejected(node: ClusterNode) -> None:
    """It requests more than its node has; it is Failed, and nothing of it is started."""
    manifest = bare()
    manifest["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1000"}}
    node.create_pod(manifest)
    node.until_api_pod("pod", lambda pod: pod["status"]["phase"] == "Failed")
    delete(node, grace=30)


def forced(node: ClusterNode) -> None:
    """Its object is removed at once, and its containers are stopped nevertheless."""
    run(node, bare(ENDS_WHEN_ASKED))
    delete(node, grace=0)


def deleted_during_pull(node: ClusterNode) -> None:
    """Its image comes from a registry that does not respond; the pull is cancelled."""
    with served(node.containerd, label="recorded", seconds_a_manifest=600) as registry:
        node.create_pod(pulling("pod", f"{registry.host}/team/app:1", automountServiceAccountToken=False))
        until(node, lambda one: one.sandbox_ready and registry.tags_asked, "the pull under way")
        delete(node, grace=2)


def edited(node: ClusterNode) -> None:
    """A label, an ephemeral container, a resize and another image; it stays the same pod."""
    manifest = bare(ENDS_WHEN_ASKED)
    manifest["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "10m"}}
    run(node, manifest)
    node.api.patch(PATH, {"metadata": {"labels": {"app": "one"}}})
    look = {"name": "look", "image": BUSYBOX, "command": ["sleep", "3600"]}
    node.api.patch(f"{PATH}/ephemeralcontainers", {"spec": {"ephemeralContainers": [look]}})
    until(node, lambda one: "look" in one.containers and one.containers["look"].container_id, "looked into")
    resized = {"name": "main", "resources": {"requests": {"cpu": "20m"}}}
    node.api.patch(f"{PATH}/resize", {"spec": {"containers": [resized]}})
    node.until_api_pod(
        "pod", lambda pod: "20m" in str(main_status(pod["status"]).get("resources")), "the resize in the status"
    )
    another = {"name": "main", "image": BUSYBOX.removeprefix("docker.io/library/")}
    node.api.call("PATCH", PATH, {"spec": {"containers": [another]}}, kind=STRATEGIC)
    node.until_api_pod("pod", lambda pod: main_status(pod["status"])["restartCount"] == 1, "the restart")
    node.until_pod_ready("pod")
    delete(node, grace=2)


def token(node: ClusterNode) -> None:
    """It has a token, which a later worker has to request again when it is signalled that it was renewed."""
    snapshot = run(node, pod_manifest("pod"))
    files = node.root_dir / "pods" / snapshot.uid / "volumes" / "kubernetes.io~projected"
    [path] = files.glob("kube-api-access-*/token")
    before = path.read_text()
    node.stop("worker")
    node.start("worker")
    [key] = [one for one in snapshot.objects if one.startswith("serviceaccounttokens/")]

    async def renew() -> None:
        handle = await node.workflow(snapshot)
        await handle.signal(OBJECTS_CHANGED, ObjectsChanged("objects", {key: "another"}, 1))

    wait(renew())
    node.until(lambda: path.read_text() != before, "another token in the volume")
    delete(node, grace=2)


def run_gated(node: ClusterNode) -> PodSnapshot:
    """Create a pod with a readiness gate, and set that to true once nothing else is missing."""
    node.create_pod(bare(ENDS_WHEN_ASKED, readinessGates=[{"conditionType": GATE}]))
    until(node, lambda one: one.reason == "ReadinessGatesNotReady", "the gate")
    patch_status(node, conditions=[{"type": GATE, "status": "True"}])
    node.until_pod_ready("pod")
    return until(node, lambda one: one.ready, "ready")


def evicted(node: ClusterNode) -> None:
    """Its node ends it, and its container exits with 0: it has succeeded."""
    snapshot = run(node, bare(ENDS_WHEN_ASKED, terminationGracePeriodSeconds=30))

    async def evict() -> None:
        asked = EvictPod("", "Evicted", "The node was low on resource: memory. ", why="it uses most")
        handle = await node.workflow(snapshot)
        await handle.execute_update(EVICT_POD, asked, result_type=PodEvicted)

    wait(evict())
    node.until_api_pod("pod", lambda pod: pod["status"]["phase"] == "Succeeded")
    delete(node, grace=30)


def ended_by_others(node: ClusterNode) -> None:
    """A controller sets its gate, and another sets its phase to Failed: it is stopped, and its exit codes change nothing."""
    run_gated(node)
    patch_status(node, phase="Failed", reason="NodeLost", message="the controller has given it up")
    until(node, lambda one: one.lifecycle == "terminated", "its end")
    delete(node, grace=30)
