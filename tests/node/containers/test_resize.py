"""Does an edit of a manifest's resources reach a running container on real containerd, and does its status show it?"""

import copy
import json
import os
from typing import Any

from proto.pod_snapshot import PodSnapshot
from tests.node.cgroup_view import Limits, limits
from tests.node.containerd_view import container_pid
from tests.node.operating import history, tempolet
from tests.node.tempolet_node import TempoletNode, pod_manifest
from worker.poller.resizes.allocated_pods import FILE

MI = 1024**2
NODE_KEYS: dict[str, object] = {}
"""Empty: the kubelet's back-off applies."""


def sized(cpu: str, memory: str) -> dict[str, Any]:
    """Build requests and limits."""
    return {"requests": {"cpu": "50m", "memory": "8Mi"}, "limits": {"cpu": cpu, "memory": memory}}


def manifest_of(name: str, restart_for: str = "", **container: Any) -> dict[str, Any]:
    """Build a manifest with a uid of its own, limited to 200m and 64Mi."""
    manifest = pod_manifest(name, terminationGracePeriodSeconds=1)
    manifest["metadata"] |= {"uid": f"uid-of-{name}", "generation": 1}
    main = manifest["spec"]["containers"][0]
    main |= {"resources": sized("200m", "64Mi"), **container}
    if restart_for:
        main["resizePolicy"] = [{"resourceName": restart_for, "restartPolicy": "RestartContainer"}]
    return manifest


def resized(manifest: dict[str, Any], resources: dict[str, Any], generation: int = 2) -> dict[str, Any]:
    """Change a manifest's resources."""
    changed = copy.deepcopy(manifest)
    changed["metadata"]["generation"] = generation
    changed["spec"]["containers"][0]["resources"] = resources
    return changed


def shown(snapshot: PodSnapshot) -> dict[str, Any]:
    """Read the container's resources from the status."""
    found: dict[str, Any] = snapshot.status["containerStatuses"][0]["resources"]
    return found


def conditions(snapshot: PodSnapshot) -> dict[str, dict[str, Any]]:
    """Read the conditions by type."""
    return {one["type"]: one for one in snapshot.status["conditions"]}


def kernel(node: TempoletNode, snapshot: PodSnapshot) -> tuple[Limits, Limits]:
    """Read the pod's and the container's cgroups from the kernel."""
    pod = f"{node.containerd.cgroup}/kubepods/burstable/pod{snapshot.uid}"
    return limits(pod), limits(f"{pod}/{snapshot.containers['main'].container_id}")


def granted(node: TempoletNode, uid: str) -> Any:
    """Read what a pod's containers were granted; None before that is on disk."""
    try:
        checkpoint = json.loads((node.root_dir / FILE).read_bytes())
    except FileNotFoundError:
        return None
    return json.loads(checkpoint["data"])["entries"].get(uid, {}).get("ContainerResources")


def is_settled(snapshot: PodSnapshot, generation: int) -> bool:
    """Return whether this generation is observed and no resize is in progress."""
    return snapshot.status.get("observedGeneration") == generation and "PodResizeInProgress" not in conditions(snapshot)


def until_settled(node: TempoletNode, name: str, generation: int) -> PodSnapshot:
    """Wait until the resize is finished."""
    return node.until_pod(name, lambda one: is_settled(one, generation), "resized")


def test_more_and_less_while_the_same_process_runs_on(node: TempoletNode) -> None:
    """Cpu and memory up, then down; status, kernel and story agree."""
    manifest = manifest_of("grows")
    node.apply(manifest)
    first = node.until_running("grows")
    assert shown(first) == sized("200m", "64Mi")
    assert first.status["containerStatuses"][0]["allocatedResources"] == sized("", "")["requests"]
    pid = container_pid(node.containerd, first.containers["main"].container_id)
    shares = kernel(node, first)[0].shares
    for generation, (cpu, memory, quota, size) in enumerate((("400m", "96Mi", 40, 96), ("100m", "32Mi", 10, 32)), 2):
        node.apply(resized(manifest, sized(cpu, memory), generation))
        after = until_settled(node, "grows", generation)
        expected = Limits(shares, quota * 1000, size * MI)
        assert kernel(node, after) == (expected, expected)
        assert shown(after) == sized(cpu, memory)
        assert (after.restarts, after.ready, after.sandbox_id) == (0, True, first.sandbox_id)
        assert container_pid(node.containerd, after.containers["main"].container_id) == pid
    told = history(node, first)
    assert "resources of main from cpu 50m up to 200m, memory 8Mi up to 64Mi to cpu 50m up to 400m" in told
    assert "container main resized in place: cpu 50m up to 400m, memory 8Mi up to 96Mi" in told


def test_a_restart_where_the_policy_asks_for_one(node: TempoletNode) -> None:
    """For memory, not for cpu; the new container has the new limit from its start."""
    manifest = manifest_of("restarts", restart_for="memory")
    node.apply(manifest)
    first = node.until_running("restarts")
    node.apply(resized(manifest, sized("400m", "64Mi")))
    assert until_settled(node, "restarts", 2).restarts == 0
    node.apply(resized(manifest, sized("400m", "128Mi"), 3))
    after = node.until_pod("restarts", lambda one: is_settled(one, 3) and one.ready and one.restarts == 1, "the memory")
    assert after.sandbox_id == first.sandbox_id
    assert [one.memory for one in kernel(node, after)] == [128 * MI, 128 * MI]
    assert shown(after) == sized("400m", "128Mi")
    assert "Container main resize requires restart" in history(node, after)


def test_what_the_node_has_not_is_deferred_until_it_is_taken_back(node: TempoletNode) -> None:
    """The pod keeps its resources; status, `explain` and the story give the reason."""
    manifest = manifest_of("wants")
    node.apply(manifest)
    first = node.until_running("wants")
    before = kernel(node, first)
    much = {"requests": {"cpu": "900", "memory": "8Mi"}, "limits": {"cpu": "900", "memory": "64Mi"}}
    node.apply(resized(manifest, much))
    pending = node.until_pod("wants", lambda one: "PodResizePending" in conditions(one), "deferred")
    condition = conditions(pending)["PodResizePending"]
    assert (condition["status"], condition["reason"], condition["observedGeneration"]) == ("True", "Deferred", 2)
    assert condition["message"].startswith("Node didn't have enough resource: cpu, requested: 900000, used: ")
    assert (pending.status["observedGeneration"], shown(pending)) == (2, sized("200m", "64Mi"))
    assert kernel(node, pending) == before
    said = tempolet(node, "explain", "default/wants-" + node.name)[1]
    assert "is Deferred: Node didn't have enough resource" in said
    assert "its source asks for a resize, which is Deferred: Node didn't have enough resource: cpu" in history(
        node, pending
    )
    node.until(lambda: granted(node, first.uid) == {"main": sized("200m", "64Mi")}, "what it has is on disk")
    node.apply(resized(manifest, sized("200m", "64Mi"), 3))
    after = node.until_pod("wants", lambda one: "PodResizePending" not in conditions(one), "taken back")
    assert (after.restarts, kernel(node, after)) == (0, before)


def test_a_deferred_resize_is_granted_when_another_pod_goes(node: TempoletNode) -> None:
    """Whose requests leave too little room; the container keeps running."""
    cpus = os.cpu_count() or 1
    large = manifest_of("large")
    large["spec"]["containers"][0]["resources"] = {"requests": {"cpu": f"{cpus * 1000 - 500}m"}}
    manifest = manifest_of("waits")
    for one in (large, manifest):
        node.apply(one)
    first, _ = node.until_running("waits"), node.until_running("large")
    more = {"requests": {"cpu": "600m", "memory": "8Mi"}, "limits": {"cpu": "600m", "memory": "64Mi"}}
    node.apply(resized(manifest, more))
    node.until_pod("waits", lambda one: "PodResizePending" in conditions(one), "deferred")
    node.remove("large")
    after = node.until_pod("waits", lambda one: is_settled(one, 2) and shown(one) == more, "granted")
    assert "PodResizePending" not in conditions(after)
    assert (after.restarts, after.sandbox_id) == (0, first.sandbox_id)
    assert [one.quota for one in kernel(node, after)] == [60_000, 60_000]


def test_the_pods_own_resources_change_in_place(node: TempoletNode) -> None:
    """Its cgroup, and the container that has no limits of its own."""
    manifest = manifest_of("whole")
    del manifest["spec"]["containers"][0]["resources"]
    manifest["spec"]["resources"] = sized("200m", "64Mi")
    node.apply(manifest)
    first = node.until_running("whole")
    assert [(one.quota, one.memory) for one in kernel(node, first)] == [(20_000, 64 * MI)] * 2
    changed = copy.deepcopy(manifest)
    changed["metadata"]["generation"], changed["spec"]["resources"] = 2, sized("400m", "96Mi")
    node.apply(changed)
    after = until_settled(node, "whole", 2)
    assert [(one.quota, one.memory) for one in kernel(node, after)] == [(40_000, 96 * MI)] * 2
    assert (after.restarts, after.sandbox_id, after.containers) == (0, first.sandbox_id, first.containers)
    assert "resources from cpu 50m up to 200m, memory 8Mi up to 64Mi to cpu 50m up to 400m" in history(node, after)


def test_a_limit_below_what_is_used_waits(node: TempoletNode) -> None:
    """The condition shows the error; a feasible limit clears it."""
    fill = "head -c 30000000 /dev/zero > /dev/shm/some; touch /dev/shm/full; exec sleep 3600"
    full = {"exec": {"command": ["test", "-e", "/dev/shm/full"]}, "periodSeconds": 1, "failureThreshold": 60}
    manifest = manifest_of("full", command=["sh", "-c", fill], startupProbe=full)
    node.apply(manifest)
    first = node.until_pod("full", lambda one: one.ready, "full")
    before = kernel(node, first)
    node.apply(resized(manifest, sized("200m", "16Mi")))
    failed = node.until_pod("full", lambda one: conditions(one).get("PodResizeInProgress", {}).get("reason") == "Error")
    message = conditions(failed)["PodResizeInProgress"]["message"]
    assert message.startswith(
        'cannot decrease memory limits: attempting to set container "main" memory limit (16777216)'
    )
    assert kernel(node, failed) == before
    assert shown(failed) == sized("200m", "64Mi")
    node.apply(resized(manifest, sized("200m", "48Mi"), 3))
    after = until_settled(node, "full", 3)
    assert [one.memory for one in kernel(node, after)] == [48 * MI, 48 * MI]
    assert after.restarts == 0


def test_what_is_no_resize_replaces_the_pod(node: TempoletNode) -> None:
    """Another QoS class needs a new pod."""
    manifest = manifest_of("class")
    node.apply(manifest)
    first = node.until_running("class")
    alike = {"cpu": "100m", "memory": "64Mi"}
    node.apply(resized(manifest, {"requests": alike, "limits": alike}))
    again = node.until_pod("class", lambda one: one.ready and one.sandbox_id != first.sandbox_id, "the other pod")
    assert again.status["qosClass"] == "Guaranteed"
    assert "Pod QOS Class may not change as a result of resizing" in history(node, again)
