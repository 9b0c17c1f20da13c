"""Does `tempolet skip-backoff` restart a crash-looping container on real containerd at once, and do other commands show it?"""

from pathlib import Path

from proto.refusals import read_refusals
from tests.node.containerd_view import container_pid, containers_of
from tests.node.operating import tempolet
from tests.node.tempolet_node import TempoletNode, pod_manifest

NODE_KEYS: dict[str, object] = {}
"""Empty: the kubelet's back-off applies."""


def test_a_crash_loop_is_restarted_at_once(node: TempoletNode) -> None:
    """Its restart count and its next back-off are the same as after the full wait, and the history says who skipped it."""
    node.apply(pod_manifest("loops", "echo no luck > /dev/termination-log; exit 3"))
    pod = f"default/loops-{node.name}"
    first = node.until_pod("loops", lambda one: one.restarts == 2 and one.reason == "CrashLoopBackOff")
    assert "back-off 20s restarting" in first.message
    code, said = tempolet(
        node, "skip-backoff", pod, "main"
    )  # at once: on a busy machine a command takes several of those twenty seconds
    assert (code, "restart 3 of main starts now" in said) == (0, True)
    second = node.until_pod("loops", lambda one: one.restarts == 3 and one.reason == "CrashLoopBackOff")
    assert "back-off 40s restarting" in second.message
    code, said = tempolet(node, "explain", pod)
    assert code == 0
    assert "waits for: CrashLoopBackOff: restart 4 of main at " in said
    assert f"because it ended with exit 3 Error (no luck), and has ended 4 times; `tempolet skip-backoff {pod}`" in said
    attempts = sorted(
        one.annotations["io.kubernetes.container.restartCount"] for one in containers_of(node.containerd, second.uid)
    )
    assert attempts[-1] == "3"
    code, said = tempolet(node, "history", pod)
    assert code == 0
    assert "skipped the back-off of main (" in said
    assert "container main started, restart 3 (" in said
    assert "policy Always after exit 3 Error, back-off of 20.0 s skipped by " in said
    node.take_away("loops")


def test_a_stop_tells_grace_and_sigkill(node: TempoletNode) -> None:
    """A container that ignores SIGTERM is killed after its grace period, and the line in the history says so."""
    node.apply(pod_manifest("deaf", "trap '' TERM; sleep 3600 & wait; sleep 3600"))
    pod = f"default/deaf-{node.name}"
    node.until_running("deaf")
    code, said = tempolet(node, "explain", pod)
    assert (code, "state: Running and ready, main runs" in said) == (0, True)
    assert "next: if main ended now, it would be restarted at once (restart 1)" in said
    code, said = tempolet(node, "skip-backoff", pod)
    assert (code, "waits in a back-off" in said) == (1, True)
    node.take_away("deaf")
    code, said = tempolet(node, "history", pod)
    assert "container main stopped: exit 137 Error, by SIGKILL after its grace of 1.00 s; why: ManifestRemoved" in said
    assert "(asked by the file source)" in said
    code, said = tempolet(node, "explain", pod)
    assert (code, "the pod is gone: " in said) == (0, True)


def test_a_refused_manifest_and_a_worker_that_is_away_are_told(node: TempoletNode) -> None:
    """Each message says what to do; once the worker is back, it answers again."""
    node.apply(pod_manifest("told", hostPID="maybe"))
    pod = f"default/told-{node.name}"
    node.until(lambda: read_refusals(node.root_dir), "the refusal")
    code, said = tempolet(node, "explain", pod)
    assert (code, "spec.hostPID" in said) == (0, True)
    node.apply(pod_manifest("told"))
    node.until_running("told")
    node.stop("worker")
    code, said = tempolet(node, "explain", pod)
    assert (code, f"no worker of node {node.name} answers" in said) == (1, True)
    node.start("worker")
    node.until(lambda: "state: Running and ready, main runs" in tempolet(node, "explain", pod)[1], "its answer")
    node.take_away("told")


def test_an_image_is_pulled_again_at_once(node: TempoletNode) -> None:
    """After the next failure the back-off is as long as if the first had not been skipped."""
    manifest = pod_manifest("no-image")
    manifest["spec"]["containers"][0]["image"] = "127.0.0.1:1/nothing:1"
    node.apply(manifest)
    pod = f"default/no-image-{node.name}"
    node.until_pod("no-image", lambda one: one.reason == "ErrImagePull" and one.sandbox_ready)
    code, said = tempolet(node, "skip-backoff", pod)
    assert (code, "ErrImagePull: pull 127.0.0.1:1/nothing:1 for main starts now" in said) == (0, True)
    node.until_pod("no-image", lambda one: one.reason == "ImagePullBackOff")
    code, said = tempolet(node, "explain", pod)
    assert "waits for: ErrImagePull: pull 127.0.0.1:1/nothing:1 again at " in said
    assert "blocked: main waits for its image 127.0.0.1:1/nothing:1, which could not be pulled: ErrImagePull" in said
    code, said = tempolet(node, "history", pod)
    assert "skipped the back-off of 127.0.0.1:1/nothing:1 (ErrImagePull) (" in said
    assert "waits 19." in said or "waits 20." in said
    node.take_away("no-image")


def test_a_probe_s_words_are_explained_and_told(node: TempoletNode) -> None:
    """The output of the probe is shown for a container that is not ready, and for one that its liveness probe restarted."""
    manifest = pod_manifest("probed", "trap 'exit 0' TERM; sleep 3600 & wait")
    often = {"periodSeconds": 1, "failureThreshold": 1, "timeoutSeconds": 20}
    manifest["spec"]["containers"][0] |= {
        "readinessProbe": {"exec": {"command": ["sh", "-c", "echo not yet; exit 1"]}, **often},
        "livenessProbe": {"exec": {"command": ["sh", "-c", "test ! -e /sick"]}, **often},
    }
    node.apply(manifest)
    pod = f"default/probed-{node.name}"
    running = node.until_pod("probed", lambda one: one.phase == "Running")
    words = "blocked: main runs and is not ready: its readiness probe fails: not yet"
    node.until(lambda: words in tempolet(node, "explain", pod)[1], "the probe's words")
    root = f"/proc/{container_pid(node.containerd, running.containers['main'].container_id)}/root"
    Path(root, "sick").touch()
    node.until_pod("probed", lambda one: one.restarts == 1)
    code, said = tempolet(node, "history", pod)
    assert code == 0
    assert "grace; why: Container main failed liveness probe, will be restarted" in said
    assert "by our stop (Container main failed liveness probe, will be restarted), without back-off" in said
    node.take_away("probed")
