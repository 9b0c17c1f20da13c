"""Does a manifest become a running pod on real containerd, stay running, and leave nothing when it is removed?"""

import json
import os
import signal
from typing import Any

import pytest

from proto.pod_snapshot import PodSnapshot
from tests.node.cgroup_view import has_cgroup
from tests.node.containerd_view import container_pid, containers_of, sandboxes_of
from tests.node.pod_story import log_path, story, until_logged
from tests.node.tempolet_node import BUSYBOX, TempoletNode, pod_manifest


def gone(node: TempoletNode, name: str, last: PodSnapshot) -> None:
    """Remove a manifest and wait until nothing of its pod is left: runtime, directories, logs, cgroup."""
    node.take_away(name)
    log = node.logs / f"default_{last.name}_{last.uid}"
    node.until(lambda: not log.exists() and not (node.root_dir / "pods" / last.uid).exists(), f"{name}'s files gone")
    assert sandboxes_of(node.containerd, last.uid) == []
    assert containers_of(node.containerd, last.uid) == []
    assert not has_cgroup(f"pod{last.uid}")


def container_status(snapshot: PodSnapshot, index: int = 0, kind: str = "containerStatuses") -> dict[str, Any]:
    """Return one container's status from the snapshot."""
    found: dict[str, Any] = snapshot.status[kind][index]
    return found


def test_a_plain_pod_runs_and_goes(node: TempoletNode) -> None:
    """Running with a pod IP and its log where the kubelet puts it; removed with directories and logs."""
    node.apply(pod_manifest("plain", "echo hello; cat /etc/hosts; sleep 3600"))
    snapshot = node.until_running("plain")
    assert snapshot.status["podIP"].startswith("10.214.")
    log = node.logs / f"default_{snapshot.name}_{snapshot.uid}" / "main" / "0.log"
    node.until(lambda: "stdout F hello" in log.read_text(), "its output in the log")
    node.until(lambda: f"{snapshot.status['podIP']}\t{snapshot.name}" in log.read_text(), "its line in /etc/hosts")
    conditions = {one["type"]: one["status"] for one in snapshot.status["conditions"]}
    assert conditions == dict.fromkeys(
        ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"), "True"
    )
    gone(node, "plain", snapshot)


def test_three_init_containers_run_before_the_pod(node: TempoletNode) -> None:
    """In order, each to completion, then the pod."""
    init = [{"name": f"init-{i}", "image": BUSYBOX, "command": ["true"]} for i in range(3)]
    node.apply(pod_manifest("inits", initContainers=init))
    snapshot = node.until_running("inits")
    ends = [one["state"]["terminated"] for one in snapshot.status["initContainerStatuses"]]
    assert [end["reason"] for end in ends] == ["Completed"] * 3
    assert [end["finishedAt"] for end in ends] == sorted(end["finishedAt"] for end in ends)
    gone(node, "inits", snapshot)


def test_a_failing_init_container_ends_a_pod_that_never_restarts(node: TempoletNode) -> None:
    """Failed, with the exit code reported, and nothing else started."""
    init = [{"name": "init", "image": BUSYBOX, "command": ["sh", "-c", "exit 7"]}]
    node.apply(pod_manifest("bad-init", initContainers=init, restartPolicy="Never"))
    snapshot = node.until_pod("bad-init", lambda one: one.lifecycle == "terminated")
    assert snapshot.phase == "Failed"
    assert snapshot.status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 7
    gone(node, "bad-init", snapshot)


def test_a_crash_loop_counts_and_backs_off(node: TempoletNode) -> None:
    """Restart counts grow by one, the reason is CrashLoopBackOff, and the last state is reported."""
    node.apply(pod_manifest("crash", "exit 3"))
    snapshot = node.until_pod("crash", lambda one: one.restarts >= 2 and one.reason == "CrashLoopBackOff")
    status = container_status(snapshot)
    assert status["lastState"]["terminated"]["exitCode"] == 3
    # of dead instances only the newest is kept beside the current one
    assert len(containers_of(node.containerd, snapshot.uid)) <= 3
    gone(node, "crash", snapshot)


def test_a_killed_container_comes_back_at_once(node: TempoletNode) -> None:
    """SIGKILL from outside: 137, Error, and the next instance runs."""
    node.apply(pod_manifest("killed"))
    first = node.until_running("killed")
    os.kill(container_pid(node.containerd, first.containers["main"].container_id), signal.SIGKILL)
    second = node.until_pod("killed", lambda one: one.ready and one.restarts == 1)
    assert container_status(second)["lastState"]["terminated"]["exitCode"] == 137
    gone(node, "killed", second)


@pytest.mark.parametrize(
    ("policy", "command", "phase"),
    [
        pytest.param("Never", "exit 0", "Succeeded", id="never-and-success"),
        pytest.param("OnFailure", "exit 0", "Succeeded", id="on-failure-and-success"),
        pytest.param("Never", "exit 1", "Failed", id="never-and-failure"),
    ],
)
def test_a_pod_that_ends_keeps_its_dead_container(node: TempoletNode, policy: str, command: str, phase: str) -> None:
    """It is kept for its logs until the manifest is removed; its sandbox is stopped."""
    node.apply(pod_manifest("ends", command, restartPolicy=policy))
    snapshot = node.until_pod("ends", lambda one: one.lifecycle == "terminated")
    assert snapshot.phase == phase
    assert len(containers_of(node.containerd, snapshot.uid)) == 1
    assert [ready for _, ready in sandboxes_of(node.containerd, snapshot.uid)] == [False]
    gone(node, "ends", snapshot)


def test_an_image_that_cannot_be_had_is_told(node: TempoletNode) -> None:
    """ErrImagePull with the runtime's message; with Never, ErrImageNeverPull."""
    manifest = pod_manifest("no-image")
    manifest["spec"]["containers"][0]["image"] = "127.0.0.1:1/nothing:1"
    node.apply(manifest)
    snapshot = node.until_pod("no-image", lambda one: one.reason in ("ErrImagePull", "ImagePullBackOff"))
    assert "127.0.0.1:1/nothing:1" in snapshot.message
    gone(node, "no-image", snapshot)
    manifest["spec"]["containers"][0]["imagePullPolicy"] = "Never"
    node.apply(manifest)
    snapshot = node.until_pod("no-image", lambda one: one.reason == "ErrImageNeverPull")
    gone(node, "no-image", snapshot)


def test_a_lost_sandbox_is_replaced(node: TempoletNode) -> None:
    """Its pause process was killed: a new attempt, a new address, and the container is restarted."""
    node.apply(pod_manifest("sandbox"))
    first = node.until_running("sandbox")
    os.kill(container_pid(node.containerd, first.sandbox_id), signal.SIGKILL)
    second = node.until_pod("sandbox", lambda one: one.ready and one.sandbox_id != first.sandbox_id)
    assert second.restarts == 1
    node.until(lambda: len(sandboxes_of(node.containerd, second.uid)) == 1, "the old sandbox removed")
    gone(node, "sandbox", second)


def test_an_edited_manifest_replaces_the_pod(node: TempoletNode) -> None:
    """It has a new uid and starts only when its predecessor is gone; edited back, it has the first uid again."""
    node.apply(pod_manifest("edited", "sleep 3600"))
    first = node.until_running("edited")
    node.apply(pod_manifest("edited", "sleep 3601"))
    second = node.until_pod("edited", lambda one: one.uid != first.uid and one.ready)
    assert sandboxes_of(node.containerd, first.uid) == []
    assert second.status["startTime"] >= first.status["startTime"]
    node.apply(pod_manifest("edited", "sleep 3600"))
    third = node.until_pod("edited", lambda one: one.uid == first.uid and one.ready)
    assert sandboxes_of(node.containerd, second.uid) == []
    gone(node, "edited", third)


@pytest.mark.parametrize("waits", [pytest.param(True, id="while-its-pod-stops"), pytest.param(False, id="at-once")])
def test_a_removed_manifest_that_is_made_again_starts_the_pod_anew(node: TempoletNode, waits: bool) -> None:
    """The same uid, a new sandbox, and one restart more, as in the kubelet; the history says why."""
    manifest = pod_manifest("again", "trap '' TERM; sleep 3600 & wait; sleep 3600")
    node.apply(manifest)
    first = node.until_running("again")
    node.remove("again")
    if waits:
        node.until_pod("again", lambda one: one.deleting)
    node.apply(manifest)
    second = node.until_pod("again", lambda one: one.ready and not one.deleting and one.sandbox_id != first.sandbox_id)
    # not 1: the workflow of an earlier pod of this manifest, whose files are gone, may not have ended yet, and goes on counting
    assert (second.uid, second.restarts) == (first.uid, first.restarts + 1)
    assert story(node, second)[0] == "its source lists the pod again: it starts over"
    gone(node, "again", second)


def test_deletion_gives_the_grace_it_promises(node: TempoletNode) -> None:
    """A container that handles SIGTERM has time to exit; its log is kept until the pod is gone."""
    manifest = pod_manifest("graceful", "trap 'sleep 1; exit 0' TERM; echo up; sleep 3600 & wait")
    manifest["spec"]["terminationGracePeriodSeconds"] = 30
    node.apply(manifest)
    snapshot = node.until_running("graceful")
    until_logged(node, log_path(node, snapshot), "up")
    node.take_away("graceful")
    assert any(one.startswith("container main stopped: exit 0 Completed") for one in story(node, snapshot))


def test_host_ports_and_host_network(node: TempoletNode) -> None:
    """A pod on the host network has only the node's address."""
    node.apply(pod_manifest("host", hostNetwork=True))
    snapshot = node.until_running("host")
    assert snapshot.status["podIP"] == snapshot.status["hostIP"]
    gone(node, "host", snapshot)


def test_the_labels_that_other_tools_read_are_there(node: TempoletNode) -> None:
    """Those that crictl and cAdvisor use."""
    node.apply(pod_manifest("labels"))
    snapshot = node.until_running("labels")
    (only,) = containers_of(node.containerd, snapshot.uid)
    assert only.labels["io.kubernetes.pod.name"] == snapshot.name
    assert only.labels["io.kubernetes.container.name"] == "main"
    assert only.annotations["io.kubernetes.container.restartCount"] == "0"
    gone(node, "labels", snapshot)


def test_the_snapshot_holds_no_environment(node: TempoletNode) -> None:
    """Only the container gets the values of env."""
    manifest = pod_manifest("env")
    manifest["spec"]["containers"][0]["env"] = [{"name": "TOKEN", "value": "canary-7f3a"}]
    node.apply(manifest)
    snapshot = node.until_running("env")
    assert "canary-7f3a" not in json.dumps(snapshot.status)
    assert "canary-7f3a" not in (node.root_dir / "pods" / snapshot.uid / "observed.json").read_text()
    gone(node, "env", snapshot)
