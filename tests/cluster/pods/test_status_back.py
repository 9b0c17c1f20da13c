"""Does the API show a pod's status as its node knows it: at start, end and removal, whatever happens to the API server?"""

import signal
from pathlib import Path
from typing import Any, Final

from tests.cluster.cluster_node import ClusterNode, pods_path
from tests.cluster.kubectl import Kubectl
from tests.node.containerd_view import container_pid
from tests.node.pod_story import log_path, until_logged
from tests.node.tempolet_node import pod_manifest

CONDITIONS: Final = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
ENDS_AT_ONCE: Final = "trap 'exit 0' TERM; echo up; sleep 3600 & wait"
ENDS_WHEN_LET_GO: Final = "until [ -e /go ]; do sleep 0.1; done"


def until_told(node: ClusterNode, uid: str, *reasons: str) -> dict[str, dict[str, Any]]:
    """Wait until a pod has events with these reasons; returns the newest of each reason."""
    path = f"/api/v1/namespaces/default/events?fieldSelector=involvedObject.uid%3D{uid}"

    def all_told() -> dict[str, dict[str, Any]] | None:
        told = {one["reason"]: one for one in node.api.get(path)["items"]}
        return told if set(reasons) <= told.keys() else None

    told: dict[str, dict[str, Any]] = node.until(all_told, f"events {reasons}")
    return told


def until_up(node: ClusterNode, name: str) -> None:
    """Wait until a container's trap is set: without one a container's first process ignores the signal."""
    until_logged(node, log_path(node, node.until_running(name)), "up")


def test_a_pod_comes_up_and_goes(cluster_node: ClusterNode) -> None:
    """Created, Running with the kubelet's whole status, deleted, and gone from the API."""
    pod = cluster_node.run_pod("coming", ENDS_AT_ONCE)
    status = pod["status"]
    assert status["phase"] == "Running"
    assert [one["type"] for one in status["conditions"]] == CONDITIONS
    assert all(one["status"] == "True" and one["lastTransitionTime"] for one in status["conditions"])
    assert status["observedGeneration"] == pod["metadata"]["generation"]
    assert (status["hostIP"], status["hostIPs"]) == (cluster_node.node_ip, [{"ip": cluster_node.node_ip}])
    assert status["podIPs"] == [{"ip": status["podIP"]}]
    assert (status["qosClass"], bool(status["startTime"])) == ("BestEffort", True)
    (container,) = status["containerStatuses"]
    assert container["containerID"].startswith("containerd://")
    assert (container["ready"], container["started"], container["restartCount"]) == (True, True, 0)
    assert container["imageID"]
    assert container["state"]["running"]["startedAt"]
    until_up(cluster_node, "coming")
    cluster_node.api.delete(pods_path(name="coming"), gracePeriodSeconds=600)
    cluster_node.until_pod_gone("coming")


def test_a_job_ends_and_stays_ended(cluster_node: ClusterNode) -> None:
    """Succeeded is final; its workflow stays open, and its object is removed when it is deleted."""
    cluster_node.create_pod(pod_manifest("job", "exit 0", restartPolicy="Never"))
    ended = cluster_node.until_api_pod("job", lambda pod: pod["status"]["phase"] == "Succeeded")["status"]
    told = {one["type"]: (one["status"], one.get("reason")) for one in ended["conditions"]}
    assert told["Ready"] == told["ContainersReady"] == ("False", "PodCompleted")
    assert ended["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    assert ended["podIP"]
    meddled = {"status": {"phase": "Running"}}
    cluster_node.api.call("PATCH", pods_path(name="job") + "/status", meddled, kind="application/merge-patch+json")
    cluster_node.until_api_pod("job", lambda pod: pod["status"]["phase"] == "Succeeded", "corrected")
    cluster_node.api.delete(pods_path(name="job"))
    cluster_node.until_pod_gone("job")


def test_readiness_gates(cluster_node: ClusterNode) -> None:
    """A controller's condition decides, and the API follows at once, both ways."""
    gate = "example.com/gate"
    cluster_node.create_pod(pod_manifest("gated", readinessGates=[{"conditionType": gate}]))
    waits = cluster_node.until_api_pod("gated", lambda pod: ready(pod)[1] == "ReadinessGatesNotReady")
    assert {one["type"]: one["status"] for one in waits["status"]["conditions"]}["ContainersReady"] == "True"
    for status in ("True", "False"):
        said = {"status": {"conditions": [{"type": gate, "status": status}]}}
        kind = "application/strategic-merge-patch+json"
        cluster_node.api.call("PATCH", pods_path(name="gated") + "/status", said, kind=kind)
        found = until_ready_is(cluster_node, "gated", status)
        assert [one["status"] for one in found["status"]["conditions"] if one["type"] == gate] == [status]


def until_ready_is(node: ClusterNode, name: str, status: str) -> Any:
    """Wait until a pod's Ready condition has this status."""
    return node.until_api_pod(name, lambda pod: ready(pod)[0] == status, f"{name} ready: {status}")


def ready(pod: dict[str, Any]) -> tuple[str, str]:
    """Return status and reason of a pod's Ready condition."""
    found: dict[str, str] = next((one for one in pod["status"].get("conditions", ()) if one["type"] == "Ready"), {})
    return found.get("status", ""), found.get("reason", "")


def test_events(cluster_node: ClusterNode, kubectl: Kubectl) -> None:
    """Those that users look for first when a pod fails."""
    pods = {
        "told": pod_manifest("told"),
        "crashing": pod_manifest("crashing", "exit 3"),
        "unpulled": pod_manifest("unpulled"),
        "probed": pod_manifest("probed"),
    }
    pods["unpulled"]["spec"]["containers"][0] |= {"image": "nowhere.invalid/none:1", "imagePullPolicy": "Never"}
    probe = {
        "exec": {"command": ["sh", "-c", "echo no; exit 1"]},
        "periodSeconds": 1,
        "failureThreshold": 2,
        "timeoutSeconds": 20,
    }
    pods["probed"]["spec"]["containers"][0]["livenessProbe"] = probe
    uids = {name: cluster_node.create_pod(pod)["metadata"]["uid"] for name, pod in pods.items()}
    started = until_told(cluster_node, uids["told"], "Pulled", "Created", "Started")["Started"]
    assert started["involvedObject"]["fieldPath"] == "spec.containers{main}"
    assert started["source"] == {"component": "kubelet", "host": cluster_node.name}
    crashing = until_told(cluster_node, uids["crashing"], "BackOff")["BackOff"]
    assert crashing["message"].startswith("Back-off restarting failed container main in pod crashing_default(")
    until_told(cluster_node, uids["unpulled"], "ErrImageNeverPull", "Failed")
    probed = until_told(cluster_node, uids["probed"], "Unhealthy", "Killing")
    assert probed["Unhealthy"]["message"].startswith("Liveness probe failed: no")
    assert probed["Killing"]["message"] == "Container main failed liveness probe, will be restarted"
    until_told(cluster_node, uids["probed"], "Started")
    assert "Back-off restarting failed container main" in kubectl.ok("describe", "pod", "crashing")


def let_go(node: ClusterNode, name: str) -> Path:
    """Let a container exit; returns its process's folder in /proc."""
    container = node.until_pod(name, bool).containers["main"]
    process = Path(f"/proc/{container_pid(node.containerd, container.container_id)}")
    (process / "root" / "go").touch()
    return process


def test_the_api_server_goes_and_comes_back(cluster_node: ClusterNode) -> None:
    """Pods end meanwhile; a pending deletion waits, and everything is reported soon after its return."""
    cluster_node.run_pod("ending", ENDS_WHEN_LET_GO, restartPolicy="Never")
    cluster_node.run_pod("going", f"trap '{ENDS_WHEN_LET_GO}; exit 0' TERM; echo up; sleep 3600 & wait")
    until_up(cluster_node, "going")
    cluster_node.api.delete(pods_path(name="going"), gracePeriodSeconds=600)
    cluster_node.until_pod("going", lambda one: one.deleting, "the node has heard of the deletion")
    cluster_node.plane.stop_apiserver()
    try:
        for name in ("ending", "going"):
            let_go(cluster_node, name)
        cluster_node.until_gone("going")
        cluster_node.until_pod("ending", lambda one: one.phase == "Succeeded", "ended")
    finally:
        cluster_node.plane.start_apiserver()
    cluster_node.until_api_pod("ending", lambda pod: pod["status"]["phase"] == "Succeeded")
    cluster_node.until_pod_gone("going")


def test_a_new_worker_tells_what_its_predecessor_could_not(cluster_node: ClusterNode) -> None:
    """Killed before it could report the pod's end, which the next worker reports."""
    cluster_node.run_pod("orphaned", ENDS_WHEN_LET_GO, restartPolicy="Never")
    cluster_node.stop("worker", signal.SIGKILL)
    process = let_go(cluster_node, "orphaned")
    cluster_node.until(lambda: not process.exists(), "the container's own end, which nobody watches")
    cluster_node.start("worker")
    ended = cluster_node.until_api_pod("orphaned", lambda pod: pod["status"]["phase"] == "Succeeded")
    assert ended["status"]["containerStatuses"][0]["state"]["terminated"]["reason"] == "Completed"


def test_a_static_pod_is_seen_by_its_mirror(cluster_node: ClusterNode) -> None:
    """Status and events are in the API, also after the mirror pod was deleted."""
    cluster_node.apply(pod_manifest("static"))
    name = f"static-{cluster_node.name}"
    mirror = cluster_node.until_pod_ready(name)
    uid = mirror["metadata"]["annotations"]["kubernetes.io/config.mirror"]
    assert uid != mirror["metadata"]["uid"]
    until_told(cluster_node, uid, "Started")
    cluster_node.api.delete(pods_path(name=name), gracePeriodSeconds=0)
    again = cluster_node.until_api_pod(
        name, lambda pod: pod["metadata"]["uid"] != mirror["metadata"]["uid"] and ready(pod)[0] == "True"
    )
    assert again["status"]["containerStatuses"] == mirror["status"]["containerStatuses"]
    cluster_node.remove("static")
    cluster_node.until_pod_gone(name)


def test_a_pod_that_the_node_does_not_take(cluster_node: ClusterNode) -> None:
    """Failed with the kubelet's reason, in the status and in an event, without container statuses; it is removed when it is deleted."""
    refused = pod_manifest("refused", nodeSelector={"kubernetes.io/hostname": "elsewhere"})
    uid = cluster_node.create_pod(refused)["metadata"]["uid"]
    status = cluster_node.until_api_pod("refused", lambda pod: pod["status"]["phase"] == "Failed")["status"]
    assert status["reason"] == "NodeAffinity"
    assert status["message"].startswith("Pod was rejected: ")
    assert not status.get("containerStatuses")
    assert until_told(cluster_node, uid, "NodeAffinity")["NodeAffinity"]["type"] == "Warning"
    cluster_node.api.delete(pods_path(name="refused"))
    cluster_node.until_pod_gone("refused")
