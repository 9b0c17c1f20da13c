"""Lives without edits and operators, for `record_histories`: starts, exits, probes, hooks, losses."""

import asyncio
import json
import os
import signal
from pathlib import Path

from proto.temporal.names import RUNTIME_CHANGED
from proto.temporal.signals import RuntimeChanged
from tests.node.containerd_view import container_pid
from tests.node.restarted_machine import restart_machine
from tests.node.tempolet_node import BUSYBOX, TempoletNode, pod_manifest


def init(*codes: int) -> list[dict[str, object]]:
    """Build init containers with these exit codes."""
    return [
        {"name": f"init-{number}", "image": BUSYBOX, "command": ["sh", "-c", f"exit {code}"]}
        for number, code in enumerate(codes)
    ]


def plain(node: TempoletNode) -> None:
    """Start, run, delete."""
    node.apply(pod_manifest("pod"))
    node.until_running("pod")


def three_init_containers(node: TempoletNode) -> None:
    """All succeed."""
    node.apply(pod_manifest("pod", initContainers=init(0, 0, 0)))
    node.until_running("pod")


def early_ends(node: TempoletNode) -> None:
    """Two init containers exit before their starts have returned, the third takes longer."""
    slow = {"name": "init-2", "image": BUSYBOX, "command": ["sleep", "1"]}
    node.apply(pod_manifest("pod", initContainers=[*init(0, 0), slow]))
    node.until_running("pod")


def failing_init(node: TempoletNode) -> None:
    """The second fails permanently."""
    node.apply(pod_manifest("pod", initContainers=init(0, 1), restartPolicy="Never"))
    node.until_pod("pod", lambda one: one.lifecycle == "terminated")


def crash_loop(node: TempoletNode) -> None:
    """Three restarts with growing delays."""
    node.apply(pod_manifest("pod", "exit 1"))
    node.until_pod("pod", lambda one: one.restarts >= 3 and one.reason == "CrashLoopBackOff", "the third restart")


def image_not_found(node: TempoletNode) -> None:
    """Two failed pulls."""
    manifest = pod_manifest("pod")
    manifest["spec"]["containers"][0]["image"] = "127.0.0.1:1/nothing:1"
    node.apply(manifest)
    node.until_pod("pod", lambda one: one.reason == "ImagePullBackOff", "the second failure")


def image_volume(node: TempoletNode) -> None:
    """The container mounts an image that is present; a missing one is pulled twice."""
    shown = {"here": BUSYBOX, "nowhere": "127.0.0.1:1/nothing:1"}
    volumes = [
        {"name": name, "image": {"reference": image, "pullPolicy": "IfNotPresent"}} for name, image in shown.items()
    ]
    manifest = pod_manifest("pod", volumes=volumes)
    beside = {"name": "beside", "image": BUSYBOX, "command": ["sleep", "3600"]}
    for name, container in zip(shown, (manifest["spec"]["containers"][0], beside), strict=True):
        container["volumeMounts"] = [{"name": name, "mountPath": "/shown"}]
    manifest["spec"]["containers"].append(beside)
    node.apply(manifest)
    node.until_pod("pod", lambda one: one.reason == "ImagePullBackOff", "the second failure")


def sandbox_killed(node: TempoletNode) -> None:
    """A new attempt of the sandbox."""
    node.apply(pod_manifest("pod"))
    first = node.until_running("pod")
    os.kill(container_pid(node.containerd, first.sandbox_id), signal.SIGKILL)
    node.until_pod("pod", lambda one: one.ready and one.sandbox_id != first.sandbox_id, "the new sandbox")


def machine_restarted(node: TempoletNode) -> None:
    """While a container waits in its back-off; it does not wait any longer."""
    node.apply(pod_manifest("pod", "exit 1"))
    looping = node.until_pod("pod", lambda one: one.restarts >= 3 and one.reason == "CrashLoopBackOff", "in back-off")
    restart_machine(node, looping)
    node.until_pod(
        "pod",
        lambda one: one.sandbox_id not in ("", looping.sandbox_id) and one.restarts >= 5,
        "two restarts in the new sandbox",
    )


def worker_restarted(node: TempoletNode) -> None:
    """Killed while a container is being stopped, which exits meanwhile."""
    node.apply(pod_manifest("pod", "trap '' TERM; sleep 3600 & wait; sleep 3600"))
    node.until_running("pod")
    node.remove("pod")
    node.until_pod("pod", lambda one: one.deleting, "going")
    node.stop("worker", signal.SIGKILL)
    node.start("worker")
    node.until_gone("pod")


def continue_as_new(node: TempoletNode) -> None:
    """More than 2,000 hints: the second run has the state of the first."""
    node.apply(pod_manifest("pod"))
    snapshot = node.until_running("pod")

    async def hint() -> None:
        handle = await node.workflow(snapshot)
        for _ in range(84):
            await asyncio.gather(
                *[handle.signal(RUNTIME_CHANGED, RuntimeChanged("event", exited=("x",))) for _ in range(24)]
            )

    asyncio.run(hint())
    os.kill(container_pid(node.containerd, snapshot.containers["main"].container_id), signal.SIGKILL)
    node.until_pod("pod", lambda one: one.ready and one.restarts == 1, "restarted in the second run")


def finished(node: TempoletNode) -> None:
    """Succeeded, and kept until its manifest is removed."""
    node.apply(pod_manifest("pod", "exit 0", restartPolicy="Never"))
    node.until_pod("pod", lambda one: one.lifecycle == "terminated", "ended")


def probes(node: TempoletNode) -> None:
    """Started, ready, not ready, killed by its liveness probe, ready again; the worker is killed in between."""
    manifest = pod_manifest("pod", "touch /well; sleep 1; touch /started; exec sleep 3600")
    quick = {"periodSeconds": 1, "failureThreshold": 1}
    manifest["spec"]["containers"][0] |= {
        "startupProbe": {"exec": {"command": ["test", "-e", "/started"]}, **quick, "failureThreshold": 60},
        "readinessProbe": {"exec": {"command": ["test", "!", "-e", "/busy"]}, **quick},
        "livenessProbe": {"exec": {"command": ["test", "-e", "/well"]}, **quick, "terminationGracePeriodSeconds": 1},
    }
    node.apply(manifest)
    snapshot = node.until_running("pod")
    root = f"/proc/{container_pid(node.containerd, snapshot.containers['main'].container_id)}/root"
    Path(root, "busy").touch()
    node.until_pod("pod", lambda one: not one.ready, "busy")
    node.stop("worker", signal.SIGKILL)
    node.start("worker")
    Path(root, "well").unlink()
    node.until_pod("pod", lambda one: one.ready and one.restarts == 1, "killed and back")


def sidecars(node: TempoletNode) -> None:
    """One of two restarts alone; when the work is done they are stopped, the last one first."""
    serve = "trap 'exit 0' TERM; while :; do sleep 0.1; done"
    beside = [
        {"name": name, "image": BUSYBOX, "command": ["sh", "-c", serve], "restartPolicy": "Always"}
        for name in ("side-a", "side-b")
    ]
    steps = [beside[0], *init(0), beside[1]]
    node.apply(pod_manifest("pod", "sleep 3", initContainers=steps, restartPolicy="Never"))
    first = node.until_running("pod")
    os.kill(container_pid(node.containerd, first.containers["side-a"].container_id), signal.SIGKILL)
    node.until_pod("pod", lambda one: one.ready and one.containers["side-a"].attempt == 1, "side-a again")
    node.until_pod("pod", lambda one: one.lifecycle == "terminated", "ended")


def restart_rules(node: TempoletNode) -> None:
    """An exit code in a rule restarts a container of a pod that never restarts."""
    manifest = pod_manifest("pod", "exit 42", restartPolicy="Never")
    rule = {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}
    manifest["spec"]["containers"][0] |= {"restartPolicy": "Never", "restartPolicyRules": [rule]}
    node.apply(manifest)
    node.until_pod("pod", lambda one: one.restarts >= 2, "restarted twice")


def restart_all(node: TempoletNode) -> None:
    """One exit, by a rule, restarts every container of the pod in its sandbox."""
    steps = [*init(0), {"name": "beside", "image": BUSYBOX, "command": ["sleep", "3600"], "restartPolicy": "Always"}]
    manifest = pod_manifest("pod", "sleep 1; exit 88", initContainers=steps, restartPolicy="Never")
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [88]}}
    manifest["spec"]["containers"][0] |= {"restartPolicy": "Never", "restartPolicyRules": [rule]}
    node.apply(manifest)
    node.until_pod("pod", lambda one: one.ready and one.restarts == 3, "all of them restarted")


def hooked(**hooks: list[str]) -> dict[str, object]:
    """Build a manifest whose container has hooks with these commands."""
    manifest = pod_manifest("pod", terminationGracePeriodSeconds=10)
    lifecycle = {hook: {"exec": {"command": command}} for hook, command in hooks.items()}
    manifest["spec"]["containers"][0]["lifecycle"] = lifecycle
    return manifest


def both_hooks(node: TempoletNode) -> None:
    """PostStart succeeds; the worker dies during preStop, which runs again."""
    node.apply(hooked(postStart=["true"], preStop=["sleep", "3"]))
    node.until_running("pod")
    node.remove("pod")
    node.until_pod("pod", lambda one: one.deleting, "going")
    node.stop("worker", signal.SIGKILL)
    node.start("worker")
    node.until_gone("pod")


def failing_post_start(node: TempoletNode) -> None:
    """It stops the container, which is restarted."""
    node.apply(hooked(postStart=["false"], preStop=["true"]))
    node.until_pod("pod", lambda one: one.restarts >= 2, "the second restart")


def own_hooks(node: TempoletNode) -> None:
    """A preStart hook fails once and is retried; the worker dies during postStop, which runs again."""
    serves = "trap 'exit 0' TERM; sleep 2; mkdir /www; httpd -p 80 -h /www; sleep 3600 & wait"
    manifest = pod_manifest("pod", serves, terminationGracePeriodSeconds=30)
    waits = ["sh", "-c", "trap 'exit 0' TERM; sleep 3600 & wait"]
    manifest["spec"]["containers"].append({"name": "second", "image": BUSYBOX, "command": waits})
    wait = {"tcpSocket": {"port": 80}, "retry": {"maxAttempts": 9, "factor": 1}}
    said = {"preStart.tempolet.dev/second": wait, "postStop.tempolet.dev/main": {"exec": {"command": ["sleep", "3"]}}}
    manifest["metadata"]["annotations"] = {key: json.dumps(value) for key, value in said.items()}
    node.apply(manifest)
    node.until_running("pod")
    node.remove("pod")
    snapshot = node.until_pod("pod", lambda one: one.deleting, "going")
    hook = node.logs / f"default_{snapshot.name}_{snapshot.uid}" / "main" / "postStop.0.log"
    node.until(hook.exists, "its postStop hook running")
    node.stop("worker", signal.SIGKILL)
    node.start("worker")
    node.until_gone("pod")
