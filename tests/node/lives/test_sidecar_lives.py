"""Do sidecars start in order, restart alone, end with the pod's work and stop last, on real containerd?"""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from proto.pod_snapshot import PodSnapshot
from tests.node.containerd_view import container_pid
from tests.node.pod_story import story
from tests.node.tempolet_node import BUSYBOX, TempoletNode, pod_manifest

SERVE = "trap 'sleep 0.4; exit 0' TERM; while :; do sleep 0.1; done"
ENDS_SLOWLY = SERVE.replace("0.4", "2")
"""Long enough to see it exit on a busy machine."""
RULES = [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]


def init(name: str, command: str = "true", **fields: Any) -> dict[str, Any]:
    """Build an init container."""
    return {"name": name, "image": BUSYBOX, "command": ["sh", "-c", command], **fields}


def sidecar(name: str, command: str = SERVE) -> dict[str, Any]:
    """Build a sidecar."""
    return init(name, command, restartPolicy="Always")


def states(snapshot: PodSnapshot) -> dict[str, dict[str, Any]]:
    """Return each container's current state."""
    shown = [*snapshot.status.get("initContainerStatuses", ()), *snapshot.status["containerStatuses"]]
    return {one["name"]: one["state"] for one in shown}


def running(snapshot: PodSnapshot) -> frozenset[str]:
    """Return the names of the running containers."""
    return frozenset(name for name, state in states(snapshot).items() if "running" in state)


def remove(node: TempoletNode, name: str) -> list[frozenset[str]]:
    """Delete a pod; returns the sets of its running containers, in order, until it was gone."""
    seen: list[frozenset[str]] = []

    def gone() -> bool:
        snapshot = node.pod(name)
        if snapshot and (not seen or running(snapshot) != seen[-1]):
            seen.append(running(snapshot))
        return snapshot is None

    node.remove(name)
    node.until(gone, f"{name} gone")
    return seen


def test_a_pod_with_sidecars_comes_up_in_order_and_stops_in_reverse(node: TempoletNode) -> None:
    """Each sidecar runs before the next container starts; the regular container stops first, the first sidecar last."""
    steps = [init("first"), sidecar("a", ENDS_SLOWLY), init("second", "sleep 0.3"), sidecar("b", ENDS_SLOWLY)]
    manifest = pod_manifest("ordered", ENDS_SLOWLY, initContainers=steps)
    manifest["spec"]["terminationGracePeriodSeconds"] = 20
    node.apply(manifest)
    snapshot = node.until_running("ordered")
    shown = states(snapshot)
    begun = [
        shown["first"]["terminated"]["finishedAt"],
        shown["a"]["running"]["startedAt"],
        shown["second"]["terminated"]["startedAt"],
        shown["second"]["terminated"]["finishedAt"],
        shown["b"]["running"]["startedAt"],
        shown["main"]["running"]["startedAt"],
    ]
    assert begun == sorted(begun)
    statuses = {one["name"]: one for one in snapshot.status["initContainerStatuses"]}
    assert [(statuses[name]["ready"], statuses[name]["started"]) for name in "ab"] == [(True, True)] * 2
    order = remove(node, "ordered")
    assert order[:3] == [frozenset({"a", "b", "main"}), frozenset({"a", "b"}), frozenset({"a"})]


def test_a_killed_sidecar_restarts_alone(node: TempoletNode) -> None:
    """The main container keeps running, also in a pod that never restarts; init containers do not run again."""
    node.apply(pod_manifest("alone", initContainers=[init("first"), sidecar("a")], restartPolicy="Never"))
    first = node.until_running("alone")
    os.kill(container_pid(node.containerd, first.containers["a"].container_id), signal.SIGKILL)
    second = node.until_pod("alone", lambda one: one.ready and one.containers["a"].attempt == 1)
    for name in ("first", "main"):
        assert second.containers[name].container_id == first.containers[name].container_id
    assert second.phase == "Running"
    remove(node, "alone")


def test_a_startup_probe_of_a_sidecar_holds_up_what_comes_next(node: TempoletNode) -> None:
    """The regular container starts once it has succeeded; a failed liveness probe restarts only the sidecar."""
    probes = {
        "startupProbe": {"exec": {"command": ["test", "-e", "/started"]}, "periodSeconds": 1, "failureThreshold": 60},
        "livenessProbe": {
            "exec": {"command": ["test", "-e", "/started"]},
            "periodSeconds": 1,
            "timeoutSeconds": 20,
            "failureThreshold": 1,
            "terminationGracePeriodSeconds": 1,
        },
    }
    beside = sidecar("a", "sleep 2; touch /started; exec sleep 3600") | probes
    node.apply(pod_manifest("probed", initContainers=[beside], restartPolicy="Never"))
    first = node.until_running("probed")
    shown = states(first)
    assert shown["main"]["running"]["startedAt"] > shown["a"]["running"]["startedAt"]
    Path("/proc", str(container_pid(node.containerd, first.containers["a"].container_id)), "root/started").unlink()
    second = node.until_pod("probed", lambda one: one.ready and one.containers["a"].attempt == 1)
    assert second.containers["main"].container_id == first.containers["main"].container_id
    remove(node, "probed")


@pytest.mark.parametrize(("code", "phase"), [pytest.param(0, "Succeeded", id="0"), pytest.param(3, "Failed", id="3")])
def test_a_job_s_sidecar_ends_with_its_work(node: TempoletNode, code: int, phase: str) -> None:
    """The phase is the main container's; the sidecar is stopped gracefully."""
    spec = {"initContainers": [sidecar("a")], "restartPolicy": "Never", "terminationGracePeriodSeconds": 20}
    node.apply(pod_manifest("job", f"exit {code}", **spec))
    snapshot = node.until_pod("job", lambda one: one.lifecycle == "terminated")
    assert snapshot.phase == phase
    ended = states(snapshot)
    assert (ended["main"]["terminated"]["exitCode"], ended["a"]["terminated"]["exitCode"]) == (code, 0)
    remove(node, "job")


def test_exit_codes_decide_in_a_pod_that_never_restarts(node: TempoletNode) -> None:
    """42 restarts the container, 1 ends the pod."""
    for code in (42, 1):
        manifest = pod_manifest(f"code-{code}", f"exit {code}", restartPolicy="Never")
        manifest["spec"]["containers"][0] |= {"restartPolicy": "Never", "restartPolicyRules": RULES}
        node.apply(manifest)
    again = node.until_pod("code-42", lambda one: one.restarts >= 2)
    assert again.phase == "Running"
    ended = node.until_pod("code-1", lambda one: one.lifecycle == "terminated")
    assert (ended.phase, ended.restarts) == ("Failed", 0)
    for code in (42, 1):
        remove(node, f"code-{code}")


def test_a_container_of_its_own_policy(node: TempoletNode) -> None:
    """Never for one container in a pod that always restarts: it stays exited while the others run."""
    manifest = pod_manifest("own")
    once = {"name": "once", "image": BUSYBOX, "command": ["sh", "-c", "exit 5"], "restartPolicy": "Never"}
    manifest["spec"]["containers"].append(once)
    node.apply(manifest)
    snapshot = node.until_pod("own", lambda one: "terminated" in states(one).get("once", {}))
    assert (states(snapshot)["once"]["terminated"]["exitCode"], running(snapshot)) == (5, frozenset({"main"}))
    remove(node, "own")


def test_a_new_sandbox_runs_sidecars_and_init_containers_again(node: TempoletNode) -> None:
    """Everything starts over, as the next attempt."""
    node.apply(pod_manifest("anew", SERVE, initContainers=[init("first"), sidecar("a")]))
    first = node.until_running("anew")
    os.kill(container_pid(node.containerd, first.sandbox_id), signal.SIGKILL)
    second = node.until_pod("anew", lambda one: one.ready and one.sandbox_id != first.sandbox_id)
    assert {name: one.attempt for name, one in second.containers.items()} == {"first": 1, "a": 1, "main": 1}
    remove(node, "anew")


def test_one_end_starts_all_containers_again(node: TempoletNode) -> None:
    """Init container, sidecar and both regular containers, in the existing sandbox, each as its next attempt.

    No preStop hook runs for it.
    """
    once_let_go = "until [ -e /go ]; do sleep 0.1; done; exit 88"
    manifest = pod_manifest("all", once_let_go, initContainers=[init("first"), sidecar("a")])
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [88]}}
    manifest["spec"] |= {"restartPolicy": "Never"}
    manifest["spec"]["containers"][0] |= {"restartPolicy": "Never", "restartPolicyRules": [rule]}
    hook = {"preStop": {"exec": {"command": ["true"]}}}
    beside = {"name": "beside", "image": BUSYBOX, "command": ["sh", "-c", SERVE], "lifecycle": hook}
    manifest["spec"]["containers"].append(beside)
    node.apply(manifest)
    first = node.until_running("all")
    Path(f"/proc/{container_pid(node.containerd, first.containers['main'].container_id)}/root/go").touch()
    second = node.until_pod("all", lambda one: one.ready and one.restarts == 4)
    assert second.sandbox_id == first.sandbox_id
    assert {one.attempt for one in second.containers.values()} == {1}
    shown = [*second.status["initContainerStatuses"], *second.status["containerStatuses"]]
    last = {one["name"]: one["lastState"]["terminated"]["reason"] for one in shown}
    restarting = "RestartingAllContainers"
    assert last == {"first": "Completed", "a": restarting, "main": "Error", "beside": restarting}
    told = story(node, second)
    assert any(line.startswith("container beside stopped") for line in told)
    assert not [line for line in told if "preStop" in line]
    remove(node, "all")
