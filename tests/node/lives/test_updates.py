"""Is an edit under the same uid applied in place on real containerd, and the pod replaced only where necessary?"""

import copy
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from proto.pod_snapshot import PodSnapshot
from tests.node.containerd_view import container_pid
from tests.node.images.pull_nodes import served
from tests.node.operating import history, tempolet
from tests.node.tempolet_node import BUSYBOX, TempoletNode, pod_manifest
from worker.standalone.containerd import Containerd

NODE_KEYS: dict[str, object] = {}
"""Empty: the kubelet's back-off applies."""


@pytest.fixture(scope="module")
def other_image(containerd: Containerd) -> Iterator[str]:
    """Serve another image with busybox's layers, which has to be pulled."""
    with served(containerd, label="other") as made:
        yield f"{made.host}/busybox:2"


def manifest_of(name: str, command: str = "exec sleep 3600", **spec: Any) -> dict[str, Any]:
    """Build a manifest with a uid of its own."""
    manifest = pod_manifest(name, command, **spec)
    manifest["metadata"]["uid"] = f"uid-of-{name}"
    return manifest


def edited(manifest: dict[str, Any], *, metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """Change fields of a manifest."""
    changed = copy.deepcopy(manifest)
    changed["metadata"] |= metadata or {}
    changed["spec"] |= spec
    return changed


def with_image(manifest: dict[str, Any], image: str, kind: str = "containers") -> dict[str, Any]:
    """Change the image of its first container."""
    changed = copy.deepcopy(manifest)
    changed["spec"][kind][0] |= {"image": image, "imagePullPolicy": "IfNotPresent"}
    return changed


def statuses(snapshot: PodSnapshot, kind: str = "containerStatuses") -> dict[str, dict[str, Any]]:
    """Return each container's status by its name."""
    return {one["name"]: one for one in snapshot.status[kind]}


def test_labels_change_while_the_same_process_runs_on(node: TempoletNode) -> None:
    """The observedGeneration is updated once they are applied."""
    manifest = manifest_of("labels")
    node.apply(manifest)
    first = node.until_running("labels")
    pid = container_pid(node.containerd, first.containers["main"].container_id)
    node.apply(edited(manifest, metadata={"labels": {"app": "two"}, "generation": 2}))
    after = node.until_pod("labels", lambda one: one.status.get("observedGeneration") == 2, "the edit taken over")
    assert (after.sandbox_id, after.restarts, after.ready) == (first.sandbox_id, 0, True)
    assert container_pid(node.containerd, after.containers["main"].container_id) == pid
    assert "manifest changed: labels app" in history(node, after)


def test_a_deadline_that_is_set_later_ends_the_pod_where_it_runs(node: TempoletNode) -> None:
    """It counts from the pod's start, so one in the past takes effect at once."""
    manifest = manifest_of("deadline", activeDeadlineSeconds=3600)
    node.apply(manifest)
    first = node.until_running("deadline")
    node.apply(edited(manifest, activeDeadlineSeconds=1))
    ended = node.until_pod("deadline", lambda one: one.lifecycle == "terminated", "ended")
    assert (ended.reason, ended.phase, ended.sandbox_id) == ("DeadlineExceeded", "Failed", first.sandbox_id)
    assert "manifest changed: activeDeadlineSeconds from 3600 to 1" in history(node, ended)


def test_what_kubernetes_cannot_change_in_place_replaces_the_pod(node: TempoletNode) -> None:
    """The same uid starts over with the new manifest; the story gives the reason."""
    manifest = manifest_of("replaced", terminationGracePeriodSeconds=1)
    node.apply(manifest)
    first = node.until_running("replaced")
    node.apply(edited(manifest, terminationGracePeriodSeconds=2))
    again = node.until_pod("replaced", lambda one: one.ready and one.sandbox_id != first.sandbox_id, "the other pod")
    assert again.uid == first.uid
    told = history(node, again)
    assert "the pod is replaced, because terminationGracePeriodSeconds from 1 to 2 cannot be changed in place" in told


def test_a_bad_edit_leaves_the_pod_as_it_runs(node: TempoletNode) -> None:
    """`tempolet pods` shows the error; the next valid edit is applied."""
    manifest = manifest_of("bad")
    node.apply(manifest)
    first = node.until_running("bad")
    node.apply(edited(manifest, activeDeadlineSeconds=0))
    node.until(lambda: "spec.activeDeadlineSeconds" in tempolet(node, "pods")[1], "the refusal")
    node.apply(edited(manifest, metadata={"labels": {"app": "good"}, "generation": 2}))
    after = node.until_pod("bad", lambda one: one.status.get("observedGeneration") == 2, "the good edit")
    assert (after.sandbox_id, after.restarts) == (first.sandbox_id, 0)


def test_another_image_restarts_its_container_alone(node: TempoletNode, other_image: str) -> None:
    """After its preStop hook, in the same sandbox, whatever the restart policy; the worker is killed in between."""
    beside = {"name": "beside", "image": BUSYBOX, "command": ["sleep", "3600"]}
    manifest = manifest_of("image", "trap 'exit 0' TERM; while :; do sleep 0.1; done", restartPolicy="Never")
    manifest["spec"]["terminationGracePeriodSeconds"] = 20
    manifest["spec"]["containers"][0]["lifecycle"] = {"preStop": {"exec": {"command": ["sleep", "2"]}}}
    manifest["spec"]["containers"].append(beside)
    node.apply(with_image(manifest, BUSYBOX))
    first = node.until_running("image")
    pid = container_pid(node.containerd, first.containers["beside"].container_id)
    node.apply(with_image(manifest, other_image))
    node.until(lambda: "manifest changed: image of main" in history(node, first), "the edit heard")
    node.stop("worker", signal.SIGKILL)
    node.start("worker")
    after = node.until_pod("image", lambda one: one.ready and one.restarts == 1, "the restart")
    assert (after.sandbox_id, after.phase) == (first.sandbox_id, "Running")
    main = statuses(after)["main"]
    assert (main["restartCount"], main["image"]) == (1, other_image)
    assert main["lastState"]["terminated"]["exitCode"] == 0
    assert container_pid(node.containerd, after.containers["beside"].container_id) == pid
    told = history(node, after)
    for text in (
        f"manifest changed: image of main from {BUSYBOX} to {other_image}",
        "preStop of main done",
        "why: Container main definition changed, will be restarted",
        "container main started, restart 1",
        f"with image {other_image} instead of {BUSYBOX}",
    ):
        assert text in told
    # present: the pull was done when the worker was killed, and its answer was lost
    assert any(f"image {other_image} {word}" in told for word in ("pulled", "present"))


def test_a_crash_loop_begins_anew_with_another_image(node: TempoletNode, other_image: str) -> None:
    """It starts at once, and its next back-off is that of a first restart."""
    manifest = manifest_of("loop", "exit 1")
    node.apply(with_image(manifest, BUSYBOX))
    loops = node.until_pod(
        "loop", lambda one: one.restarts == 2 and one.reason == "CrashLoopBackOff", "the second wait"
    )
    assert "back-off 20s" in loops.message
    node.apply(with_image(manifest, other_image))
    again = node.until_pod("loop", lambda one: one.restarts == 4 and one.reason == "CrashLoopBackOff", "the loop anew")
    assert "back-off 20s" in again.message
    assert statuses(again)["main"]["image"] == other_image


def test_an_image_that_is_not_to_be_had_is_taken_back(node: TempoletNode) -> None:
    """The container waits for it, also with restartPolicy Never, and runs the old image again."""
    manifest = manifest_of("missing", restartPolicy="Never")
    node.apply(with_image(manifest, BUSYBOX))
    first = node.until_running("missing")
    node.apply(with_image(manifest, "127.0.0.1:1/nothing:1"))
    waits = node.until_pod("missing", lambda one: one.reason == "ErrImagePull" and not one.ready, "the failed pull")
    assert waits.phase == "Running"
    node.apply(with_image(manifest, BUSYBOX))
    back = node.until_pod("missing", lambda one: one.ready and one.restarts == 1, "the old image again")
    assert back.sandbox_id == first.sandbox_id


def test_a_sidecar_gets_another_image_beside_what_it_serves(node: TempoletNode, other_image: str) -> None:
    """The running containers are not affected."""
    serve = "trap 'exit 0' TERM; while :; do sleep 0.1; done"
    side = {"name": "side", "image": BUSYBOX, "command": ["sh", "-c", serve], "restartPolicy": "Always"}
    manifest = manifest_of("sidecar", initContainers=[side])
    node.apply(with_image(manifest, BUSYBOX, "initContainers"))
    first = node.until_running("sidecar")
    pid = container_pid(node.containerd, first.containers["main"].container_id)
    node.apply(with_image(manifest, other_image, "initContainers"))
    after = node.until_pod("sidecar", lambda one: one.ready and one.restarts == 1, "the restart")
    assert statuses(after, "initContainerStatuses")["side"]["image"] == other_image
    assert container_pid(node.containerd, after.containers["main"].container_id) == pid
    assert "Init container side definition changed" in history(node, after)
