"""Does a pod that the API binds to this node run and end as the API says, with real API server, containerd and Temporal?"""

import json
import signal
from functools import partial
from typing import Any

from proto.pod_snapshot import PodSnapshot, pod_path
from proto.temporal import names
from tests.cluster.cluster_node import ClusterNode, pods_path
from tests.node.tempolet_node import pod_manifest, wait


def bare(name: str, command: str = "sleep 3600", **spec: Any) -> dict[str, Any]:
    """Build a pod without a service account token."""
    return pod_manifest(name, command, **{"automountServiceAccountToken": False, **spec})


def test_a_pod_of_the_api_runs_and_goes_when_it_is_deleted(cluster_node: ClusterNode) -> None:
    """Created with a nodeName, as a scheduler leaves it; its object is deleted when nothing of it is left."""
    cluster_node.create_pod(bare("web"))
    found = cluster_node.until_running("web")
    assert (found.source, found.path) == ("api", "")
    cluster_node.until_pod_ready("web")
    cluster_node.api.delete(pods_path(name="web"), gracePeriodSeconds=1)
    cluster_node.until_pod_gone("web")
    assert cluster_node.pod("web") is None


def test_a_deletion_is_told_once(cluster_node: ClusterNode) -> None:
    """Our own final delete of the object appears as a shorter grace period, and is not signalled to a pod of which nothing is left."""
    cluster_node.create_pod(bare("once"))
    found = cluster_node.until_running("once")
    delete(cluster_node, "once")
    told = wait(signals(cluster_node, found))
    assert names.POD_LISTED in told
    assert told.count(names.DELETION_REQUESTED) == 1


async def signals(node: ClusterNode, pod: PodSnapshot) -> list[str]:
    """Return the signals in a pod's history."""
    events = (await (await node.workflow(pod)).fetch_history()).events
    return [one.workflow_execution_signaled_event_attributes.signal_name for one in events]


def test_what_the_api_lets_change_changes_in_place(cluster_node: ClusterNode) -> None:
    """Labels are signalled to the pod, another image restarts its container; its sandbox stays."""
    container = {
        **bare("edited")["spec"]["containers"][0],
        "env": [{"name": "WHO", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['who']"}}}],
    }
    cluster_node.create_pod(bare("edited", containers=[container]))
    before = cluster_node.until_running("edited")
    path = pods_path(name="edited")
    cluster_node.api.patch(path, {"metadata": {"labels": {"who": "me"}}})
    cluster_node.api.patch(path, {"spec": {"activeDeadlineSeconds": 3600}})
    now = cluster_node.until_pod(
        "edited", lambda one: labels_of(cluster_node, one.uid) == {"who": "me"}, "the label told"
    )
    assert (now.sandbox_id, now.containers) == (before.sandbox_id, before.containers)
    delete(cluster_node, "edited")


def test_a_pod_is_looked_into_and_resized_through_the_api(cluster_node: ClusterNode) -> None:
    """As by `kubectl debug` and `kubectl patch --subresource resize`; the container keeps running."""
    container = {**bare("live")["spec"]["containers"][0], "resources": {"requests": {"cpu": "10m"}}}
    cluster_node.create_pod(bare("live", containers=[container]))
    before = cluster_node.until_running("live")
    path = pods_path(name="live")
    look = {"name": "look", "image": container["image"], "command": ["sleep", "3600"]}
    cluster_node.api.patch(f"{path}/ephemeralcontainers", {"spec": {"ephemeralContainers": [look]}})
    cluster_node.until_pod(
        "live", lambda one: "look" in one.containers and one.containers["look"].container_id, "looked into"
    )
    resized = {"name": container["name"], "resources": {"requests": {"cpu": "20m"}}}
    cluster_node.api.patch(f"{path}/resize", {"spec": {"containers": [resized]}})
    cluster_node.until_api_pod("live", lambda pod: requested(pod) == "20m", "the resize in the status")
    now = cluster_node.pod("live")
    assert now is not None
    assert now.containers["main"] == before.containers["main"]
    delete(cluster_node, "live")


def requested(pod: Any) -> Any:
    """Return the cpu that the API shows for a running container."""
    shown = pod["status"]["containerStatuses"][0].get("resources") or {}
    return (shown.get("requests") or {}).get("cpu")


def labels_of(node: ClusterNode, uid: str) -> Any:
    """Return the pod's labels on this node."""
    path = pod_path(node.root_dir, uid)
    return json.loads(path.read_bytes())["metadata"].get("labels") if path.exists() else None


def delete(node: ClusterNode, name: str, grace: int = 1) -> None:
    """Delete a pod and wait until it is gone."""
    node.api.delete(pods_path(name=name), gracePeriodSeconds=grace)
    node.until_pod_gone(name)


def is_ready(wanted: bool, one: PodSnapshot) -> bool:
    """Return whether its readiness is as wanted."""
    return one.ready is wanted


def test_a_readiness_gate_waits_for_its_condition(cluster_node: ClusterNode) -> None:
    """Another party writes it into the status, and unsets it."""
    gates = [{"conditionType": "example.com/gate"}]
    cluster_node.create_pod(bare("gated", readinessGates=gates))
    cluster_node.until_pod("gated", lambda one: one.reason == "ReadinessGatesNotReady", "gated not ready")
    path = pods_path(name="gated")
    for status in ("True", "False"):
        condition = {"type": "example.com/gate", "status": status}
        cluster_node.api.patch(f"{path}/status", {"status": {"conditions": [condition]}})
        cluster_node.until_pod("gated", partial(is_ready, status == "True"), f"gated ready: {status}")
    delete(cluster_node, "gated")


def test_a_pod_that_is_deleted_by_force_stops_all_the_same(cluster_node: ClusterNode) -> None:
    """Its object is gone at once, and the API confirms that before anything is killed."""
    cluster_node.create_pod(bare("forced"))
    cluster_node.until_running("forced")
    cluster_node.api.delete(pods_path(name="forced"), gracePeriodSeconds=0)
    cluster_node.until_gone("forced")


def test_what_happened_while_the_poller_was_away_is_made_good(cluster_node: ClusterNode) -> None:
    """A pod was created, one deleted, one force-deleted, one has finished, and one is unchanged."""
    for name in ("stays", "deleted", "forced"):
        cluster_node.create_pod(bare(name))
    cluster_node.create_pod(bare("ended", "true", restartPolicy="Never"))
    for name in ("stays", "deleted", "forced"):
        cluster_node.until_running(name)
    cluster_node.until_api_pod("ended", lambda pod: pod["status"]["phase"] == "Succeeded")
    before = cluster_node.pod("stays")
    cluster_node.stop("poller", signal.SIGKILL)
    cluster_node.api.delete(pods_path(name="deleted"), gracePeriodSeconds=1)
    cluster_node.api.delete(pods_path(name="forced"), gracePeriodSeconds=0)
    cluster_node.create_pod(bare("came"))
    cluster_node.start("poller")
    cluster_node.until_running("came")
    cluster_node.until_pod_gone("deleted")
    cluster_node.until_gone("forced")
    after = cluster_node.pod("stays")
    assert before
    assert after
    assert (after.sandbox_id, after.containers) == (before.sandbox_id, before.containers)
    assert cluster_node.api.get(pods_path(name="ended"))["status"]["phase"] == "Succeeded"
    for name in ("stays", "came", "ended"):
        delete(cluster_node, name)


def test_a_static_pod_has_a_mirror_that_comes_back_and_goes_with_it(cluster_node: ClusterNode) -> None:
    """Deleted in the API it is created again, without an effect on its pod."""
    cluster_node.apply(pod_manifest("static"))
    found = cluster_node.until_running("static")
    path = pods_path(name=found.name)
    first = cluster_node.api.until(path, bool, "the mirror pod")
    assert first["metadata"]["annotations"]["kubernetes.io/config.mirror"] == found.uid
    assert first["metadata"]["ownerReferences"][0]["name"] == cluster_node.name
    cluster_node.api.delete(path)
    again = cluster_node.api.until(path, lambda pod: pod["metadata"]["uid"] != first["metadata"]["uid"], "another one")
    assert again["metadata"]["annotations"]["kubernetes.io/config.mirror"] == found.uid
    cluster_node.until_running("static")
    cluster_node.remove("static")
    cluster_node.until_pod_gone(found.name)


def test_a_mirror_shows_the_static_pod_that_runs(cluster_node: ClusterNode) -> None:
    """That of an edited pod's old version while that stops; and one restart more for a file removed and made again."""
    stubborn = "trap '' TERM; sleep 3600 & wait; sleep 3600"
    cluster_node.apply(pod_manifest("static", stubborn, terminationGracePeriodSeconds=6))
    name = f"static-{cluster_node.name}"
    old, path = cluster_node.until_pod_ready(name), pods_path(name=name)
    edited = pod_manifest("static", f"{stubborn}; true", terminationGracePeriodSeconds=1)
    cluster_node.apply(edited)
    # the new version waits beside it, so there are two snapshots of this name
    cluster_node.until(lambda: any(one.deleting for one in cluster_node.snapshots()), "the old version stops")
    shown: list[Any] = []

    def is_new(pod: Any) -> bool:
        shown.append(pod)
        return bool(pod["metadata"]["uid"] != old["metadata"]["uid"])

    new = cluster_node.api.until(path, is_new, "the new mirror pod")
    assert [pod["status"]["phase"] for pod in shown].count("Running") > 1, "the old one is shown while it stops"
    ended_at = shown[-2]["status"]["containerStatuses"][0]["state"]
    assert "terminated" in ended_at or "running" in ended_at
    assert new["spec"]["containers"][0]["command"] == edited["spec"]["containers"][0]["command"]
    cluster_node.until_pod_ready(name)
    cluster_node.remove("static")
    cluster_node.apply(edited)
    again = cluster_node.until_api_pod(
        name,
        lambda pod: pod["status"]["phase"] == "Running" and pod["status"]["containerStatuses"][0]["restartCount"] == 1,
    )
    assert again["metadata"]["uid"] == new["metadata"]["uid"]
    cluster_node.remove("static")
    cluster_node.until_pod_gone(name)


def test_a_pod_that_the_node_has_no_room_for_fails_with_the_kubelets_words(cluster_node: ClusterNode) -> None:
    """Nothing of it is started."""
    container = {**bare("big")["spec"]["containers"][0], "resources": {"requests": {"cpu": "1000"}}}
    cluster_node.create_pod(bare("big", containers=[container]))
    found = cluster_node.until_pod("big", lambda one: one.phase == "Failed", "big refused")
    assert found.reason == "OutOfcpu"
    assert found.message.startswith("Pod was rejected: Node didn't have enough resource: cpu, requested: 1000000")
    assert found.sandbox_id == ""
    told = cluster_node.until_api_pod("big", lambda pod: pod["status"]["phase"] == "Failed")["status"]
    assert (told["reason"], told["message"]) == (found.reason, found.message)
    delete(cluster_node, "big")


def test_a_pod_that_needs_what_this_node_has_not_is_refused_with_the_field(cluster_node: ClusterNode) -> None:
    """And never run partially."""
    volume = {"name": "disk", "flexVolume": {"driver": "example.com/x"}}
    cluster_node.create_pod(bare("cloud", volumes=[volume]))
    found = cluster_node.until_pod("cloud", lambda one: one.phase == "Failed", "volume refused")
    assert found.reason == "PodFeatureUnsupported"
    assert "spec.volumes[0].flexVolume: not supported" in found.message
    delete(cluster_node, "cloud")
