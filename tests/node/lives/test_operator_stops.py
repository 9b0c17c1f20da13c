"""Do an operator's updates of a pod on real containerd last: its readiness gates, and how it is stopped?"""

import signal
from typing import Any

from proto.cri.v1 import api_pb2 as cri
from proto.pod_snapshot import PodSnapshot
from tests.node.containerd_view import containers_of, sandboxes_of
from tests.node.operating import tempolet
from tests.node.tempolet_node import TempoletNode, pod_manifest
from worker.commands.change.updates import operator

GATE = "example.com/lb"
RUNNING = cri.ContainerState.CONTAINER_RUNNING
NODE_KEYS: dict[str, object] = {}
"""Empty: the kubelet's back-off applies."""


def condition(snapshot: PodSnapshot, name: str) -> dict[str, Any]:
    """Return a condition of a pod's status."""
    found: dict[str, Any] = next((one for one in snapshot.status["conditions"] if one["type"] == name), {})
    return found


def test_a_readiness_gate_is_opened_and_shut_by_hand(node: TempoletNode) -> None:
    """Ready waits for it with a reason; it stays set when the worker is killed; the history says who set it."""
    node.apply(pod_manifest("gated", readinessGates=[{"conditionType": GATE}]))
    pod = f"default/gated-{node.name}"
    waits = node.until_pod("gated", lambda one: one.reason == "ReadinessGatesNotReady")
    assert condition(waits, "ContainersReady")["status"] == "True"
    missing = f'corresponding condition of pod readiness gate "{GATE}" does not exist.'
    assert condition(waits, "Ready")["message"] == missing
    code, said = tempolet(node, "explain", pod)
    remedy = f"`tempolet condition {pod} {GATE}=True` opens one"
    assert (code, f"blocked: Ready waits for a readiness gate: {missing}; {remedy}" in said) == (0, True)
    code, said = tempolet(node, "condition", pod, f"{GATE}=True", "--reason", "Attached", "--message", "by hand")
    assert (code, said) == (0, f"condition {GATE} of {pod} is True, it had none\n")
    ready = node.until_pod("gated", lambda one: one.ready)
    given = condition(ready, GATE)
    assert (given["status"], given["reason"], given["message"]) == ("True", "Attached", "by hand")
    node.stop("worker", signal.SIGKILL)
    node.start("worker")
    code, said = tempolet(node, "condition", pod, f"{GATE}=True", "--reason", "Attached", "--message", "by hand")
    assert (code, said) == (0, f"condition {GATE} of {pod} is True already\n")
    code, said = tempolet(node, "condition", pod, "Ready=True")
    assert (code, "condition Ready is the node's own" in said) == (1, True)
    code, said = tempolet(node, "condition", pod, f"{GATE}=False")
    assert (code, said) == (0, f"condition {GATE} of {pod} is False, it was True\n")
    shut = node.until_pod("gated", lambda one: not one.ready)
    assert condition(shut, GATE)["lastTransitionTime"] >= given["lastTransitionTime"]
    assert shut.containers["main"].container_id == ready.containers["main"].container_id
    code, said = tempolet(node, "history", pod)
    assert f"operator {operator()} set condition {GATE} to True, it had none (Attached: by hand)" in said
    assert f"operator {operator()} set condition {GATE} to False, it was True" in said
    node.take_away("gated")


DEAF = "trap '' TERM; while true; do sleep 1; done"


def test_a_stop_is_hastened_by_force(node: TempoletNode) -> None:
    """A running pod can't be stopped; one that ignores SIGTERM during a long grace period is killed when forced."""
    node.apply(pod_manifest("deaf", DEAF, terminationGracePeriodSeconds=600))
    pod = f"default/deaf-{node.name}"
    running = node.until_running("deaf")
    code, said = tempolet(node, "stop", pod)
    assert (code, "is not terminating, its source lists it: remove its manifest first" in said) == (1, True)
    node.remove("deaf")
    node.until_pod("deaf", lambda one: one.deleting)
    code, said = tempolet(node, "stop", pod, "--grace-period", "700")
    assert (code, f"{pod}: its grace period ends before that anyway, SIGKILL at " in said) == (0, True)
    code, said = tempolet(node, "stop", pod, "--grace-period", "300")
    assert (code, " sooner, SIGKILL at " in said) == (0, True)
    code, said = tempolet(node, "explain", pod)
    assert "(grace 300 s)" in said
    assert running.containers["main"].container_id in {one.id for one in containers_of(node.containerd, running.uid)}
    code, said = tempolet(node, "stop", pod, "--force")
    assert (code, " sooner, SIGKILL at " in said) == (0, True)
    node.until_gone("deaf")
    assert containers_of(node.containerd, running.uid) == []
    code, said = tempolet(node, "history", pod)
    assert f"operator {operator()} asked to stop it within 5 min 0 s: its grace period ends " in said
    assert f"operator {operator()} asked to stop it within 1.00 s: its grace period ends " in said
    assert "the stop of container main was shortened to 1.00 s of grace" in said  # whichever stop returns first
    assert "container main stopped: exit 137 Error, by SIGKILL after its grace of 1.00 s; why: ManifestRemoved" in said
    code, said = tempolet(node, "stop", pod)
    assert (code, f"{pod} is gone" in said) == (3, True)


def test_a_hastened_stop_outlives_a_worker(node: TempoletNode) -> None:
    """Forced during its preStop hook, with the worker killed at once: the next worker uses the shorter grace period."""
    manifest = pod_manifest("hooked", DEAF, terminationGracePeriodSeconds=600)
    hook = {"exec": {"command": ["sleep", "500"]}}
    manifest["spec"]["containers"][0]["lifecycle"] = {"preStop": hook}
    node.apply(manifest)
    pod = f"default/hooked-{node.name}"
    node.until_running("hooked")
    node.remove("hooked")
    node.until(lambda: "preStop of main" in tempolet(node, "explain", pod)[1], "its hook")
    assert tempolet(node, "stop", pod, "--force")[0] == 0
    node.stop("worker", signal.SIGKILL)
    node.start("worker")
    node.until_gone("hooked")
    code, said = tempolet(node, "history", pod)
    assert (code, "main stopped: exit 137 Error" in said) == (0, True)


def test_an_evicted_pod_fails_until_its_manifest_changes(node: TempoletNode) -> None:
    """Killed after the requested grace period, Failed with the kubelet's message, and a new worker does not start it again."""
    node.apply(pod_manifest("evicted", DEAF, terminationGracePeriodSeconds=600))
    pod = f"default/evicted-{node.name}"
    running = node.until_running("evicted")
    why = ["--reason", "Evicted", "--message", "The node was low on resource: memory."]
    code, said = tempolet(node, "evict", pod, "--grace-period", "1", *why)
    assert (code, f"{pod} is evicted (Evicted): grace 1.00 s, SIGKILL at " in said) == (0, True)
    ended = node.until_pod("evicted", lambda one: one.lifecycle == "terminated")
    assert (ended.uid, ended.phase, ended.reason) == (running.uid, "Failed", "Evicted")
    assert (ended.status["reason"], ended.status["message"]) == (why[1], why[3])
    target = condition(ended, "DisruptionTarget")
    assert (target["status"], target["reason"], target["message"]) == ("True", "TerminationByKubelet", why[3])
    assert condition(ended, "Ready")["reason"] == "PodFailed"
    assert sandboxes_of(node.containerd, ended.uid) == [(ended.sandbox_id, False)]
    node.stop("worker", signal.SIGKILL)
    node.start("worker")
    code, said = tempolet(node, "evict", pod)
    assert (code, f"{pod} has finished: nothing of it is left to evict" in said) == (1, True)
    code, said = tempolet(node, "explain", pod)
    assert f"state: Failed: Evicted ({why[3]}), and its source still lists it" in said
    code, said = tempolet(node, "history", pod)
    assert f"operator {operator()} evicted the pod: Evicted: {why[3]} (grace 1.00 s, SIGKILL at " in said
    assert f"by SIGKILL after its grace of 1.00 s; why: Evicted: {why[3]} (asked by operator {operator()})" in said
    node.apply(pod_manifest("evicted", "sleep 3600"))
    again = node.until_pod("evicted", lambda one: one.uid != ended.uid and one.ready)
    assert again.phase == "Running"
    node.take_away("evicted")


def test_a_pod_of_the_system_is_not_evicted(node: TempoletNode) -> None:
    """The error says so, and its container keeps running."""
    node.apply(pod_manifest("critical", priorityClassName="system-node-critical"))
    running = node.until_running("critical")
    code, said = tempolet(node, "evict", f"default/critical-{node.name}")
    assert (code, "is a pod of the system by its priority, which is never evicted" in said) == (1, True)
    container_id = running.containers["main"].container_id
    assert [(one.id, one.state) for one in containers_of(node.containerd, running.uid)] == [(container_id, RUNNING)]
    node.take_away("critical")
