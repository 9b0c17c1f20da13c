"""Do lifecycle hooks run on real containerd in order, once, within the grace period, and are they reported?

Hooks write into their container's log, through the stdout of process 1.
"""

import signal
from functools import partial
from pathlib import Path
from typing import Any

from proto.pod_snapshot import PodSnapshot
from tests.node.containerd_view import containers_of
from tests.node.pod_story import log_lines, log_path, story, timed_lines, until_logged
from tests.node.tempolet_node import BUSYBOX, TempoletNode, pod_manifest


def says(word: str, then: str = "true") -> dict[str, Any]:
    """Build a hook that logs a word in the container's log and then does something."""
    return {"exec": {"command": ["sh", "-c", f"echo {word} > /proc/1/fd/1; {then}"]}}


def hooked(name: str, command: str = "sleep 3600", grace: int = 1, **hooks: Any) -> dict[str, Any]:
    """Build a manifest whose container has these hooks."""
    manifest = pod_manifest(name, command, terminationGracePeriodSeconds=grace)
    manifest["spec"]["containers"][0]["lifecycle"] = hooks
    return manifest


def keep_log(node: TempoletNode, snapshot: PodSnapshot, to: Path, word: str) -> Path:
    """Hard-link a log that is removed with its pod, once it contains a word."""
    log = log_path(node, snapshot)
    node.until(lambda: word in log_lines(log), f"{word} in the log")
    to.hardlink_to(log)
    return to


def test_the_next_container_waits_for_post_start(node: TempoletNode) -> None:
    """It is created when the previous container's hook has ended; until then that container is not running."""
    manifest = hooked("waits", postStart=says("hook", "sleep 2; echo done > /proc/1/fd/1"))
    second = {"name": "second", "image": BUSYBOX, "command": ["sleep", "3600"]}
    manifest["spec"]["containers"].append(second)
    node.apply(manifest)
    early = node.until_pod("waits", lambda one: one.containers.get("main") and one.containers["main"].container_id)
    assert early.status["containerStatuses"][0]["state"]["waiting"]["reason"] == "ContainerCreating"
    snapshot = node.until_running("waits")
    until_logged(node, log_path(node, snapshot), "done")
    done_at = next(at for at, text in timed_lines(log_path(node, snapshot)) if text == "done")
    (after,) = [one for one in containers_of(node.containerd, snapshot.uid) if one.metadata.name == "second"]
    assert after.created_at / 1e9 > done_at.timestamp()
    assert any(text.startswith("postStart of main done") for text in story(node, snapshot))


def test_a_failing_post_start_restarts_the_container_and_says_why(node: TempoletNode) -> None:
    """The restart policy and its back-off apply, and the reason is reported."""
    node.apply(hooked("fails", postStart={"exec": {"command": ["sh", "-c", "echo no database >&2; exit 3"]}}))
    snapshot = node.until_pod("fails", lambda one: one.restarts >= 2)
    told = story(node, snapshot)
    assert any("FailedPostStartHook: exit code 3: no database" in text for text in told)
    assert any(text.startswith("container main stopped") and "FailedPostStartHook" in text for text in told)
    node.until_pod("fails", lambda one: one.reason in ("CrashLoopBackOff", "PostStartHookError"))
    node.take_away("fails")


def test_pre_stop_runs_before_sigterm_within_the_grace(node: TempoletNode, tmp_path: Path) -> None:
    """The container gets SIGTERM when the hook has ended, and has the rest of the grace period."""
    command = "trap 'echo term; sleep 1; echo bye; exit 0' TERM; echo up; sleep 3600 & wait"
    node.apply(hooked("kind", command, 20, preStop=says("hook", "sleep 2; echo done > /proc/1/fd/1")))
    log = keep_log(node, node.until_running("kind"), tmp_path / "log", "up")
    node.take_away("kind")
    assert log_lines(log) == ["up", "hook", "done", "term", "bye"]


def test_a_pre_stop_that_hangs_is_not_awaited_beyond_the_grace(node: TempoletNode, tmp_path: Path) -> None:
    """The stop continues, with at least two seconds between SIGTERM and SIGKILL; the hook ends with its container."""
    command = "trap 'echo term; sleep 1.1; echo bye; exit 0' TERM; echo up; sleep 3600 & wait"
    working = "while sleep 0.2; do echo works > /proc/1/fd/1; done"
    node.apply(hooked("hangs", command, 3, preStop=says("hook", working)))
    snapshot = node.until_running("hangs")
    log = keep_log(node, snapshot, tmp_path / "log", "up")
    node.take_away("hangs")
    lines = log_lines(log)
    assert [line for line in lines if line != "works"] == ["up", "hook", "term", "bye"]
    assert "works" in lines[lines.index("term") :]
    (hook_at, term_at) = [at for at, text in timed_lines(log) if text in ("hook", "term")]
    assert (term_at - hook_at).total_seconds() > 2.5
    assert any("FailedPreStopHook: the grace period of 3 s ran out" in text for text in story(node, snapshot))


def test_post_start_by_http_get_and_tcp_socket(node: TempoletNode) -> None:
    """If the server answers, the container runs; tcpSocket fails, as the kubelet does not support it for hooks."""
    manifest = pod_manifest("asks", "mkdir /www; exec httpd -f -p 80 -h /www")
    asks = {"postStart": {"httpGet": {"port": "web", "path": "/nothing"}}}
    second = {"name": "second", "image": BUSYBOX, "command": ["sleep", "3600"], "lifecycle": asks}
    manifest["spec"]["containers"].append({**second, "ports": [{"name": "web", "containerPort": 80}]})
    node.apply(manifest)
    answered = node.until_running("asks")
    assert any(text.startswith("postStart of second done") for text in story(node, answered))
    node.apply(hooked("knocks", postStart={"tcpSocket": {"port": 80}}))
    snapshot = node.until_pod("knocks", lambda one: one.restarts >= 1)
    assert any("FailedPostStartHook: invalid handler: tcpSocket" in text for text in story(node, snapshot))


def test_a_deletion_ends_a_post_start_that_hangs(node: TempoletNode) -> None:
    """It is cancelled."""
    node.apply(hooked("stuck", postStart={"sleep": {"seconds": 1}}, preStop={"sleep": {"seconds": 0}}))
    node.until_running("stuck")
    node.apply(hooked("never", postStart=says("hook", "sleep 3600")))
    snapshot = node.until_pod("never", lambda one: one.containers.get("main") and one.containers["main"].container_id)
    node.until(lambda: "hook" in log_lines(log_path(node, snapshot)), "the hook running")
    node.remove("never")
    node.remove("stuck")
    node.until_gone("never")
    node.until_gone("stuck")


def test_a_hook_whose_worker_dies_runs_again_and_the_history_says_so(node: TempoletNode, tmp_path: Path) -> None:
    """Its outcome is unknown; a hook with a known outcome is not repeated."""
    awaits = "until [ -e /told/end ]; do sleep 0.1; done; echo done > /proc/1/fd/1"
    killed = hooked("killed", postStart=says("hook", awaits))
    killed["spec"]["volumes"] = [{"name": "told", "hostPath": {"path": str(tmp_path)}}]
    killed["spec"]["containers"][0]["volumeMounts"] = [{"name": "told", "mountPath": "/told"}]
    node.apply(killed)
    node.apply(hooked("known", postStart=says("hook")))
    known = node.until_running("known")
    snapshot = node.until_pod("killed", lambda one: one.containers.get("main") and one.containers["main"].container_id)
    node.until(lambda: log_lines(log_path(node, snapshot)) == ["hook"], "the hook running")
    node.stop("worker", signal.SIGKILL)
    node.start("worker")
    node.until(lambda: log_lines(log_path(node, snapshot)) == ["hook", "hook"], "the hook running again")
    (tmp_path / "end").touch()
    node.until_running("killed")
    heard = until_logged(node, log_path(node, snapshot), "done")
    assert heard[:2] == ["hook", "hook"]
    assert set(heard[2:]) == {"done"}  # once by each, if the first one outlives the call of the killed worker
    assert any("repeated, because the result of an earlier try is not known" in text for text in story(node, snapshot))
    assert until_logged(node, log_path(node, known), "hook") == ["hook"]
    assert known.restarts == 0


def test_a_worker_killed_between_start_and_hook_skips_nothing(node: TempoletNode) -> None:
    """Killed as soon as the container runs: whatever is known of the start, the hook runs before anything else."""
    for number in range(3):
        name = f"between-{number}"
        node.apply(hooked(name, postStart=says("hook")))
        snapshot = node.until_pod(name, lambda one: one.uid)
        node.until(partial(containers_of, node.containerd, snapshot.uid), "its container made")
        node.stop("worker", signal.SIGKILL)
        node.start("worker")
        snapshot = node.until_running(name)
        told = story(node, snapshot)
        again = any("run again" in text for text in told)
        count = until_logged(node, log_path(node, snapshot), "hook").count("hook")
        assert count == 1 or (again and count == 2), told
        assert sum(text.startswith("postStart of main done") for text in told) == 1
