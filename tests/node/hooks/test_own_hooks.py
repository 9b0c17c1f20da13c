"""Do the hooks that Kubernetes does not have run on real containerd in order, and do the timeouts of all hooks apply?

A hook's command runs in a container of its own in the pod's sandbox, with a log beside the pod's.
"""

import json
import signal
from pathlib import Path
from typing import Any

from proto.cri.ownership import HOOK_POD_UID
from proto.cri.v1 import api_pb2 as cri
from proto.pod_snapshot import PodSnapshot
from tests.node.containerd_view import containers_of
from tests.node.pod_story import log_lines, log_path, story, timed_lines
from tests.node.tempolet_node import BUSYBOX, TempoletNode, pod_manifest
from worker.standalone.containerd import Containerd


def hooked(name: str, command: str = "echo up; sleep 3600", grace: int = 1, **hooks: dict[str, Any]) -> dict[str, Any]:
    """Build a manifest whose container `main` has these hook annotations."""
    manifest = pod_manifest(name, command, terminationGracePeriodSeconds=grace)
    annotations = {f"{hook}.tempolet.dev/main": json.dumps(value) for hook, value in hooks.items()}
    manifest["metadata"]["annotations"] = annotations
    return manifest


def shell(command: str, **more: Any) -> dict[str, Any]:
    """Build a hook that runs a command."""
    return {"exec": {"command": ["sh", "-c", command]}, **more}


def helpers(containerd: Containerd, snapshot: PodSnapshot) -> list[cri.Container]:
    """List the containers of a pod's hooks."""
    return [one for one in containers_of(containerd, "") if one.labels.get(HOOK_POD_UID) == snapshot.uid]


def keep(log: Path, to: Path, node: TempoletNode) -> Path:
    """Hard-link a log that is removed with its pod, once it exists."""
    node.until(log.exists, f"{log.name} there")
    to.hardlink_to(log)
    return to


def test_pre_start_runs_before_each_start_in_the_pods_network(node: TempoletNode, containerd: Containerd) -> None:
    """With the container's environment; the container is created when the hook has ended, and nothing of the hook is left."""
    manifest = hooked("before", "exit 1", preStart=shell("echo $WORD; hostname -i; sleep 1; echo done"))
    manifest["spec"]["containers"][0]["env"] = [{"name": "WORD", "value": "hello"}]
    node.apply(manifest)
    snapshot = node.until_pod("before", lambda one: one.restarts >= 1)
    said_first = timed_lines(log_path(node, snapshot, file="preStart.0"))
    assert [text for _, text in said_first] == ["hello", snapshot.status["podIP"], "done"]
    assert log_lines(log_path(node, snapshot, file="preStart.1"))[-1] == "done"
    made = {one.metadata.attempt: one.created_at / 1e9 for one in containers_of(containerd, snapshot.uid)}
    assert made[0] > said_first[-1][0].timestamp()
    told = story(node, snapshot)
    assert sum(text.startswith("preStart of main before its start done in") for text in told) == 1
    assert sum(text.startswith("preStart of main before restart 1 done in") for text in told) == 1
    node.take_away("before")
    assert helpers(containerd, snapshot) == []


def test_a_failing_pre_start_keeps_the_container_from_starting(node: TempoletNode, containerd: Containerd) -> None:
    """It is retried like a failed start, and the reason is reported; the pod can be deleted meanwhile."""
    node.apply(hooked("blocked", preStart=shell("echo no database >&2; exit 3")))
    snapshot = node.until_pod("blocked", lambda one: one.reason == "PreStartHookError")
    waiting = snapshot.status["containerStatuses"][0]["state"]["waiting"]
    assert waiting == {"reason": "PreStartHookError", "message": "exit code 3: no database"}
    assert containers_of(containerd, snapshot.uid) == []
    assert any("FailedPreStartHook: exit code 3: no database" in text for text in story(node, snapshot))
    node.take_away("blocked")


def test_a_retry_policy_tries_a_hook_again_until_it_goes_well(node: TempoletNode) -> None:
    """It waits for the server of the previous container; the outcome of each failure is known."""
    retry = {"maxAttempts": 20, "initialSeconds": 1, "factor": 1}
    manifest = hooked("patient", "sleep 2; mkdir /www; exec httpd -f -p 80 -h /www")
    second = {"name": "second", "image": BUSYBOX, "command": ["sleep", "3600"]}
    manifest["spec"]["containers"].append(second)
    knock = {"tcpSocket": {"port": 80}, "timeoutSeconds": 5, "retry": retry}
    manifest["metadata"]["annotations"] = {"preStart.tempolet.dev/second": json.dumps(knock)}
    node.apply(manifest)
    snapshot = node.until_running("patient")
    (told,) = [text for text in story(node, snapshot) if text.startswith("preStart of second")]
    assert "at try " in told
    assert "is not known" not in told


def test_post_stop_runs_after_each_end_before_the_restart(node: TempoletNode, containerd: Containerd) -> None:
    """The next instance is created when the hook has ended; a failed one is reported and blocks nothing."""
    node.apply(hooked("after", "echo up; exit 1", postStop=shell("echo hook; sleep 1; echo done; exit 4")))
    snapshot = node.until_pod("after", lambda one: one.restarts >= 1)
    done_at = next(at for at, text in timed_lines(log_path(node, snapshot, file="postStop.0")) if text == "done")
    made = {one.metadata.attempt: one.created_at / 1e9 for one in containers_of(containerd, snapshot.uid)}
    assert made[1] > done_at.timestamp()
    (told, *_) = [text for text in story(node, snapshot) if text.startswith("postStop of main")]
    assert told.startswith("postStop of main after exit 1 failed after")
    assert "FailedPostStopHook: exit code 4: hook" in told
    node.take_away("after")


def test_a_finished_pod_keeps_its_network_for_post_stop(node: TempoletNode) -> None:
    """A hanging hook is ended by its timeout, at each attempt."""
    finished = hooked("finished", "exit 0", postStop=shell("hostname -i; sleep 1; echo done"))
    hanging = hooked("slow", "exit 0", postStop=shell("sleep 3600", timeoutSeconds=1, retry={"maxAttempts": 2}))
    for manifest in (finished, hanging):
        manifest["spec"]["restartPolicy"] = "Never"
        node.apply(manifest)
    snapshot = node.until_pod("finished", lambda one: one.status["phase"] == "Succeeded" and not one.sandbox_ready)
    assert log_lines(log_path(node, snapshot, file="postStop.0"))[-1] == "done"
    slow = node.until_pod("slow", lambda one: one.status["phase"] == "Succeeded" and not one.sandbox_ready)
    (told,) = [text for text in story(node, slow) if text.startswith("postStop of main")]
    assert "FailedPostStopHook: timed out after 1 s, at try 2" in told
    assert "is not known" not in told


def test_a_deletion_bounds_post_stop_by_its_grace(node: TempoletNode, containerd: Containerd, tmp_path: Path) -> None:
    """A hanging hook has the rest of the grace period, at least two seconds, and then everything of the pod is removed."""
    node.apply(
        hooked("hangs", "trap 'exit 0' TERM; echo up; sleep 3600 & wait", 1, postStop=shell("echo hook; sleep 3600"))
    )
    snapshot = node.until_running("hangs")
    node.until(lambda: "up" in log_lines(log_path(node, snapshot)), "the trap set")
    node.remove("hangs")
    log = keep(log_path(node, snapshot, file="postStop.0"), tmp_path / "log", node)
    node.until_gone("hangs")
    assert log_lines(log) == ["hook"]
    assert helpers(containerd, snapshot) == []
    told = story(node, snapshot)
    assert any("FailedPostStopHook: the grace period of" in text for text in told), told


def test_a_deletion_ends_a_post_stop_that_began_before_it(node: TempoletNode, containerd: Containerd) -> None:
    """It has at most the grace period, even if it had no limit when it started."""
    node.apply(hooked("late", "exit 1", 2, postStop=shell("echo hook; sleep 3600", timeoutSeconds=3600)))
    snapshot = node.until_pod("late", lambda one: one.uid)
    log = log_path(node, snapshot, file="postStop.0")
    node.until(lambda: log_lines(log) == ["hook"], "the hook running")
    node.take_away("late")
    assert helpers(containerd, snapshot) == []


def test_a_hook_whose_worker_dies_runs_again(node: TempoletNode, containerd: Containerd) -> None:
    """Its earlier container is removed, and the history says that its outcome is unknown."""
    node.apply(hooked("killed", preStart=shell("echo hook; sleep 3; echo done")))
    snapshot = node.until_pod("killed", lambda one: one.uid)
    log = log_path(node, snapshot, file="preStart.0")
    node.until(lambda: log_lines(log) == ["hook"], "the hook running")
    (before,) = helpers(containerd, snapshot)
    node.stop("worker", signal.SIGKILL)
    node.start("worker")
    node.until_running("killed")
    assert log_lines(log)[-2:] == ["hook", "done"]
    assert before.id not in {one.id for one in containers_of(containerd, "")}
    assert helpers(containerd, snapshot) == []
    assert any("repeated, because the result of an earlier try is not known" in text for text in story(node, snapshot))


def test_the_hooks_of_kubernetes_take_a_timeout_and_a_retry_policy(node: TempoletNode) -> None:
    """A postStart hook fails twice and succeeds at the third attempt; a preStop hook is ended by its timeout, well within its grace."""
    command = "trap 'exit 0' TERM; echo up; sleep 3600 & wait"
    limits: dict[str, dict[str, Any]] = {
        "postStart": {"retry": {"maxAttempts": 3, "factor": 1}},
        "preStop": {"timeoutSeconds": 1},
    }
    manifest = hooked("limited", command, 600, **limits)
    count = "n=$(cat /n || echo 0); echo $((n + 1)) > /n; test $n -ge 2"
    hang = ["sh", "-c", "sleep 3600"]
    handlers = {"postStart": shell(count), "preStop": {"exec": {"command": hang}}}
    manifest["spec"]["containers"][0]["lifecycle"] = handlers
    node.apply(manifest)
    snapshot = node.until_running("limited")
    assert snapshot.restarts == 0
    assert any(text.startswith("postStart of main done") and "at try 3" in text for text in story(node, snapshot))
    node.take_away("limited")
    assert any("FailedPreStopHook: timed out after 1 s" in text for text in story(node, snapshot))


def test_a_hook_may_name_an_image_of_its_own(node: TempoletNode) -> None:
    """If it cannot be pulled, the hook fails with the pull's reason."""
    node.apply(hooked("imaged", preStart=shell("echo hello", image=BUSYBOX)))
    snapshot = node.until_running("imaged")
    assert log_lines(log_path(node, snapshot, file="preStart.0")) == ["hello"]
    node.apply(hooked("imageless", preStart=shell("true", image="127.0.0.1:1/none:1")))
    failed = node.until_pod("imageless", lambda one: one.reason == "PreStartHookError")
    assert "ErrImagePull" in failed.status["containerStatuses"][0]["state"]["waiting"]["message"]
