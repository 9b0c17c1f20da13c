"""Can an operator debug a pod on real containerd with `tempolet debug`, and is the pod unchanged afterwards?"""

import os
import signal
from pathlib import Path
from typing import Any

from proto.pod_snapshot import PodSnapshot
from tests.node.containerd_view import container_pid, containers_of, sandboxes_of
from tests.node.operating import tempolet
from tests.node.tempolet_node import BUSYBOX, TempoletNode, pod_manifest

STAY = "trap 'exit 0' TERM; while :; do sleep 0.1; done"
NODE_KEYS: dict[str, object] = {}
"""Empty: the kubelet's back-off applies."""


def look(node: TempoletNode, pod: str, name: str, script: str, *options: str) -> tuple[int, str]:
    """Add an ephemeral container with a shell."""
    words = (f"default/{pod}-{node.name}", "--image", BUSYBOX, "--name", name, *options, "--", "sh", "-c", script)
    return tempolet(node, "debug", *words)


def state_of(snapshot: PodSnapshot, name: str) -> dict[str, Any]:
    """Return an ephemeral container's state; empty if the pod has none of this name."""
    shown = snapshot.status.get("ephemeralContainerStatuses", ())
    found: list[dict[str, Any]] = [one["state"] for one in shown if one["name"] == name]
    return found[0] if found else {}


def log_of(node: TempoletNode, pod: PodSnapshot, name: str) -> str:
    """Read the log of an ephemeral container."""
    return (node.logs / f"default_{pod.name}_{pod.uid}" / name / "0.log").read_text()


def test_it_sees_the_processes_of_its_target(node: TempoletNode) -> None:
    """Without a target it sees only its own; it runs once, and the pod keeps running undisturbed."""
    node.apply(pod_manifest("seen", f"{STAY} # the very one"))
    before = node.until_running("seen")
    code, said = look(node, "seen", "with", "cat /proc/1/cmdline; echo; exit 3", "--target", "main", "--env", "A=b")
    assert (code, f"to {before.namespace}/{before.name}, which sees the processes of main" in said) == (0, True)
    ended = node.until_pod("seen", lambda one: "terminated" in state_of(one, "with"))
    assert state_of(ended, "with")["terminated"]["exitCode"] == 3
    assert "the very one" in log_of(node, ended, "with")
    code, said = look(node, "seen", "alone", "cat /proc/1/cmdline; echo; hostname")
    assert (code, f"its log: default_{before.name}_{before.uid}/alone/0.log below" in said) == (0, True)
    after = node.until_pod("seen", lambda one: "terminated" in state_of(one, "alone"))
    assert "the very one" not in log_of(node, after, "alone")
    assert after.name in log_of(node, after, "alone"), "it is in the pod's own UTS and network"
    assert (after.phase, after.ready, after.restarts) == ("Running", True, 0)
    assert after.containers["main"] == before.containers["main"]
    names = sorted(one.metadata.name for one in containers_of(node.containerd, before.uid))
    assert names == ["alone", "main", "with"], "each was made once"
    code, said = tempolet(node, "history", f"default/{before.name}")
    assert f"added ephemeral container with of {BUSYBOX}, to see the processes of main" in said
    assert "container with ended: exit 3 Error" in said
    node.take_away("seen")


def test_a_wrong_look_is_refused(node: TempoletNode) -> None:
    """With the API's field path; a manifest may not contain one."""
    node.apply(pod_manifest("strict"))
    node.until_running("strict")
    code, said = look(node, "strict", "debug", "true", "--target", "api")
    assert (code, said) == (1, 'tempolet: spec.ephemeralContainers[0].targetContainerName: Not found: "api"\n')
    code, said = look(node, "strict", "main", "true")
    assert (code, 'spec.ephemeralContainers[0].name: Duplicate value: "main"' in said) == (1, True)
    code, said = look(node, "nobody", "debug", "true")
    assert (code, "no pod default/nobody" in said) == (3, True)
    node.apply(pod_manifest("born", ephemeralContainers=[{"name": "debug", "image": BUSYBOX}]))
    _, said = node.until(lambda: (told := tempolet(node, "pods")) and "refused" in told[1] and told, "the refusal")
    assert "spec.ephemeralContainers: Forbidden: cannot be set on create" in said
    for name in ("strict", "born"):
        node.remove(name)
    node.until_gone("strict")


def test_it_starts_during_initialization_and_waits_for_its_target(node: TempoletNode) -> None:
    """A hanging init container can be debugged; with a target that does not run yet, the ephemeral container waits for it."""
    hangs = {"name": "init", "image": BUSYBOX, "command": ["sh", "-c", "until [ -e /go ]; do sleep 0.1; done"]}
    node.apply(pod_manifest("hangs", STAY, initContainers=[hangs]))
    node.until_pod("hangs", lambda one: one.containers.get("init") and one.containers["init"].container_id)
    code, said = look(node, "hangs", "early", STAY, "--target", "main")
    assert (code, "it starts later: unable to find target container main" in said) == (0, True)
    waiting = node.until_pod("hangs", lambda one: state_of(one, "early").get("waiting", {}).get("message"))
    assert state_of(waiting, "early")["waiting"] == {
        "reason": "CreateContainerConfigError",
        "message": "unable to find target container main",
    }
    _, said = tempolet(node, "explain", f"default/{waiting.name}")
    assert "early waits for its target container: unable to find target container main" in said
    _, said = tempolet(node, "pods")
    assert "early is about to debug it (CreateContainerConfigError)" in said
    # it shares the init container's PID namespace, so it can reach its files
    code, said = look(node, "hangs", "helps", "touch /proc/1/root/go", "--target", "init")
    assert code == 0
    running = node.until_pod(
        "hangs",
        lambda one: one.ready and "running" in state_of(one, "early") and "terminated" in state_of(one, "helps"),
    )
    assert state_of(running, "helps")["terminated"]["reason"] in (
        "Completed",
        "Error",
    )  # killed with its target
    node.take_away("hangs")


def test_a_pod_that_goes_takes_it_along(node: TempoletNode) -> None:
    """It is stopped like the other containers, and nothing of it is left."""
    node.apply(pod_manifest("left", STAY, terminationGracePeriodSeconds=20))
    before = node.until_running("left")
    assert look(node, "left", "debug", STAY)[0] == 0
    node.until_pod("left", lambda one: "running" in state_of(one, "debug"))
    _, said = tempolet(node, "pods")
    assert "debug is debugging it" in said
    node.take_away("left")
    assert not containers_of(node.containerd, before.uid)
    assert not sandboxes_of(node.containerd, before.uid)
    assert not (node.logs / f"default_{before.name}_{before.uid}").exists()
    _, said = tempolet(node, "history", f"default/{before.name}")
    assert "container debug stopped: exit 0 Completed" in said


def test_a_pod_that_is_done_stops_it(node: TempoletNode) -> None:
    """The pod is Succeeded only once it has stopped; then no other can be added."""
    node.apply(pod_manifest("done", "until [ -e /go ]; do sleep 0.1; done", restartPolicy="Never"))
    before = node.until_running("done")
    assert look(node, "done", "debug", STAY, "--target", "main")[0] == 0
    node.until_pod("done", lambda one: "running" in state_of(one, "debug"))
    Path(f"/proc/{container_pid(node.containerd, before.containers['main'].container_id)}/root/go").touch()
    after = node.until_pod("done", lambda one: one.lifecycle == "terminated")
    assert (after.phase, "terminated" in state_of(after, "debug")) == ("Succeeded", True)
    code, said = look(node, "done", "late", "true")
    assert (code, "has finished: nothing starts in it any more" in said) == (1, True)
    node.take_away("done")


def test_it_is_not_started_again(node: TempoletNode) -> None:
    """Not if its target exits, not if the worker is killed, and not in a new sandbox."""
    node.apply(pod_manifest("once", STAY))
    first = node.until_running("once")
    assert look(node, "once", "debug", STAY, "--target", "main")[0] == 0
    assert look(node, "once", "beside", STAY)[0] == 0
    node.until_pod("once", lambda one: all("running" in state_of(one, name) for name in ("debug", "beside")))
    node.stop("worker", signal.SIGKILL)
    os.kill(container_pid(node.containerd, first.containers["main"].container_id), signal.SIGKILL)
    node.start("worker")
    again = node.until_pod(
        "once", lambda one: one.restarts == 1 and one.ready and "terminated" in state_of(one, "debug")
    )
    assert state_of(again, "debug")["terminated"]["exitCode"] == 137, "the kernel ends all that share its processes"
    assert "running" in state_of(again, "beside")
    os.kill(container_pid(node.containerd, again.sandbox_id), signal.SIGKILL)
    anew = node.until_pod("once", lambda one: one.ready and one.sandbox_id != again.sandbox_id)
    assert all("terminated" in state_of(anew, name) for name in ("debug", "beside"))
    assert look(node, "once", "third", STAY)[0] == 0
    last = node.until_pod("once", lambda one: "running" in state_of(one, "third"))
    live = {one.metadata.name for one in containers_of(node.containerd, last.uid) if one.state == 1}
    assert live == {"main", "third"}
    node.take_away("once")
