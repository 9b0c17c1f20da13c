"""Records the lives that tests/replay holds the workflow code to. Run by `make record`, never by `make test`.

Each row leads one pod through one life on a real node and writes what Temporal kept of it, opened, one file a run, to
tests/replay/histories/v<behaviour>-<life>[-<run>].json. Record after a new behaviour version; never replace the files of an
old one: pods out there still follow it.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.client import Client

from proto.temporal import names
from proto.temporal.names import DELETION_REQUESTED, NAMESPACE, RUNTIME_CHANGED
from proto.temporal.operator import (
    AddEphemeralContainer,
    BackoffsSkipped,
    ConditionSet,
    EphemeralContainerAdded,
    EvictPod,
    PodEvicted,
    SetCondition,
    SkipBackoff,
)
from proto.temporal.signals import DeletionRequested, RuntimeChanged
from tests.node.containerd_view import container_pid
from tests.node.tempolet_node import BUSYBOX, TempoletNode, pod_manifest
from worker.codec import Seal
from worker.decoded_history import decode_history
from worker.keys import KeyFile
from worker.standalone.containerd import Containerd
from worker.standalone.temporal_server import TemporalServer
from workflows.versions import CURRENT

HISTORIES = Path(__file__).parents[1] / "replay" / "histories"
PLACE = Path("/tmp/tempolet-record")  # a name that says nothing of the machine: it stands in every recorded start


def init(*codes: int) -> list[dict[str, object]]:
    """Write init containers that end with these exit codes."""
    return [
        {"name": f"init-{number}", "image": BUSYBOX, "command": ["sh", "-c", f"exit {code}"]}
        for number, code in enumerate(codes)
    ]


def plain(node: TempoletNode) -> None:
    """Start, run, go."""
    node.apply(pod_manifest("pod"))
    node.until_running("pod")


def three_init_containers(node: TempoletNode) -> None:
    """All succeed."""
    node.apply(pod_manifest("pod", initContainers=init(0, 0, 0)))
    node.until_running("pod")


def early_ends(node: TempoletNode) -> None:
    """Two init containers end before their starts have answered, the third takes its time."""
    slow = {"name": "init-2", "image": BUSYBOX, "command": ["sleep", "1"]}
    node.apply(pod_manifest("pod", initContainers=[*init(0, 0), slow]))
    node.until_running("pod")


def failing_init(node: TempoletNode) -> None:
    """The second fails for good."""
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


def deletion_during_start(node: TempoletNode) -> None:
    """The manifest goes as soon as the pod is known."""
    node.apply(pod_manifest("pod", initContainers=init(0, 0, 0)))
    node.until_pod("pod", lambda one: one.sandbox_id or one.phase == "Pending", "known")
    node.remove("pod")
    node.until(lambda: node.pod("pod") is None, "gone")


def manifest_edit(node: TempoletNode) -> None:
    """A successor waits for its predecessor."""
    node.apply(pod_manifest("pod", "sleep 3600"))
    first = node.until_running("pod")
    node.apply(pod_manifest("pod", "sleep 3601"))
    node.until_pod("pod", lambda one: one.uid != first.uid and one.ready, "the successor")


def sandbox_killed(node: TempoletNode) -> None:
    """A new attempt."""
    node.apply(pod_manifest("pod"))
    first = node.until_running("pod")
    os.kill(container_pid(node.containerd, first.sandbox_id), signal.SIGKILL)
    node.until_pod("pod", lambda one: one.ready and one.sandbox_id != first.sandbox_id, "the new sandbox")


def worker_restarted(node: TempoletNode) -> None:
    """Killed while a container is being stopped, and the container ends meanwhile."""
    node.apply(pod_manifest("pod", "trap '' TERM; sleep 3600 & wait; sleep 3600"))
    node.until_running("pod")
    node.remove("pod")
    node.until_pod("pod", lambda one: one.deleting, "going")
    node.stop("worker", signal.SIGKILL)
    node.start("worker")
    node.until(lambda: node.pod("pod") is None, "gone")


def continue_as_new(node: TempoletNode) -> None:
    """More than 2,000 hints: a second run knows what the first knew."""
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
    """Succeeded, and kept until its manifest goes."""
    node.apply(pod_manifest("pod", "exit 0", restartPolicy="Never"))
    node.until_pod("pod", lambda one: one.lifecycle == "terminated", "ended")


def listed_again(node: TempoletNode) -> None:
    """The manifest comes back while its pod goes."""
    manifest = pod_manifest("pod", "trap '' TERM; sleep 3600 & wait; sleep 3600")
    node.apply(manifest)
    first = node.until_running("pod")
    node.remove("pod")
    node.until_pod("pod", lambda one: one.deleting, "going")
    node.apply(manifest)
    node.until_pod("pod", lambda one: one.ready and one.sandbox_id != first.sandbox_id and not one.deleting, "back")


def skipped_backoff(node: TempoletNode) -> None:
    """An operator restarts a crash-looping container before its time."""
    node.apply(pod_manifest("pod", "exit 1"))
    loops = node.until_pod("pod", lambda one: one.restarts >= 1 and one.reason == "CrashLoopBackOff", "the loop")

    async def skip() -> None:
        workflow = await node.workflow(loops)
        await workflow.execute_update(names.SKIP_BACKOFF, SkipBackoff("root@node-1"), result_type=BackoffsSkipped)

    asyncio.run(skip())
    node.until_pod("pod", lambda one: one.restarts > loops.restarts, "the restart")


def readiness_gate(node: TempoletNode) -> None:
    """Shut, opened and shut again by an operator."""
    node.apply(pod_manifest("pod", readinessGates=[{"conditionType": "example.com/lb"}]))
    waits = node.until_pod("pod", lambda one: one.reason == "ReadinessGatesNotReady", "the gate")

    async def say(status: str) -> None:
        asked = SetCondition("root@node-1", "example.com/lb", status, "ByHand")
        workflow = await node.workflow(waits)
        await workflow.execute_update(names.SET_CONDITION, asked, result_type=ConditionSet)

    asyncio.run(say("True"))
    node.until_running("pod")
    asyncio.run(say("False"))
    node.until_pod("pod", lambda one: not one.ready, "shut")


def deadline(node: TempoletNode) -> None:
    """Stopped when its time was over, and kept until its manifest goes."""
    node.apply(pod_manifest("pod", activeDeadlineSeconds=2))
    node.until_pod("pod", lambda one: one.lifecycle == "terminated", "ended")


def evicted(node: TempoletNode) -> None:
    """Ended for the node's sake, the worker killed meanwhile; it has failed, and stays so."""
    node.apply(pod_manifest("pod", "trap '' TERM; sleep 3600 & wait; sleep 3600", terminationGracePeriodSeconds=30))
    running = node.until_running("pod")

    async def evict() -> None:
        asked = EvictPod("root@node-1", "Evicted", "The node was low on resource: memory.", timedelta(seconds=2))
        workflow = await node.workflow(running)
        await workflow.execute_update(names.EVICT_POD, asked, result_type=PodEvicted)

    asyncio.run(evict())
    node.stop("worker", signal.SIGKILL)
    node.start("worker")
    node.until_pod("pod", lambda one: one.lifecycle == "terminated", "ended")


def stop_shortened(node: TempoletNode) -> None:
    """Deleted twice: the second time with a grace of a second."""
    node.apply(pod_manifest("pod", "trap '' TERM; sleep 3600 & wait; sleep 3600", terminationGracePeriodSeconds=30))
    snapshot = node.until_running("pod")
    node.remove("pod")
    node.until_pod("pod", lambda one: one.deleting, "going")

    async def ask() -> None:
        wish = DeletionRequested("operator", "Deleted", "at once", timedelta(seconds=1))
        await (await node.workflow(snapshot)).signal(DELETION_REQUESTED, wish)

    asyncio.run(ask())
    node.until(lambda: node.pod("pod") is None, "gone")


def image_changed(node: TempoletNode) -> None:
    """Edited under its own uid: another image, another label, then a deadline that is over."""
    manifest = pod_manifest("pod", "trap 'exit 0' TERM; while :; do sleep 0.1; done", restartPolicy="Never")
    manifest["metadata"]["uid"] = "of-its-own"
    node.apply(manifest)
    node.until_running("pod")
    manifest["spec"]["containers"][0]["image"] = BUSYBOX.removeprefix("docker.io/library/")
    node.apply(manifest)
    node.until_pod("pod", lambda one: one.ready and one.restarts == 1, "the restart")
    manifest["metadata"] |= {"labels": {"app": "two"}, "generation": 2}
    node.apply(manifest)
    node.until_pod("pod", lambda one: one.status.get("observedGeneration") == 2, "the label")
    manifest["spec"]["activeDeadlineSeconds"] = 1
    node.apply(manifest)
    node.until_pod("pod", lambda one: one.lifecycle == "terminated", "ended")


def probes(node: TempoletNode) -> None:
    """Started, ready, not ready, killed by its liveness probe, ready again; the worker killed in between."""
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
    """One of two restarts alone; the work ends, and they are stopped, the last one first."""
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
    """An exit code that a rule names is started again in a pod that never restarts."""
    manifest = pod_manifest("pod", "exit 42", restartPolicy="Never")
    rule = {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}
    manifest["spec"]["containers"][0] |= {"restartPolicy": "Never", "restartPolicyRules": [rule]}
    node.apply(manifest)
    node.until_pod("pod", lambda one: one.restarts >= 2, "restarted twice")


def restart_all(node: TempoletNode) -> None:
    """One end, as a rule says, starts every container of the pod again in its sandbox."""
    steps = [*init(0), {"name": "beside", "image": BUSYBOX, "command": ["sleep", "3600"], "restartPolicy": "Always"}]
    manifest = pod_manifest("pod", "sleep 1; exit 88", initContainers=steps, restartPolicy="Never")
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [88]}}
    manifest["spec"]["containers"][0] |= {"restartPolicy": "Never", "restartPolicyRules": [rule]}
    node.apply(manifest)
    node.until_pod("pod", lambda one: one.ready and one.restarts == 3, "all of them restarted")


def hooked(**hooks: list[str]) -> dict[str, object]:
    """Write a manifest whose container has hooks that run these commands."""
    manifest = pod_manifest("pod", terminationGracePeriodSeconds=10)
    lifecycle = {hook: {"exec": {"command": command}} for hook, command in hooks.items()}
    manifest["spec"]["containers"][0]["lifecycle"] = lifecycle
    return manifest


def both_hooks(node: TempoletNode) -> None:
    """PostStart goes well; the worker dies during preStop, which runs again."""
    node.apply(hooked(postStart=["true"], preStop=["sleep", "3"]))
    node.until_running("pod")
    node.remove("pod")
    node.until_pod("pod", lambda one: one.deleting, "going")
    node.stop("worker", signal.SIGKILL)
    node.start("worker")
    node.until(lambda: node.pod("pod") is None, "gone")


def failing_post_start(node: TempoletNode) -> None:
    """It stops the container, which starts again."""
    node.apply(hooked(postStart=["false"], preStop=["true"]))
    node.until_pod("pod", lambda one: one.restarts >= 2, "the second restart")


def ephemeral_container(node: TempoletNode) -> None:
    """An operator looks into an init container that hangs, then into the pod; one ends, one is stopped with the pod."""
    hangs = {"name": "init-0", "image": BUSYBOX, "command": ["sh", "-c", "until [ -e /go ]; do sleep 0.1; done"]}
    node.apply(pod_manifest("pod", initContainers=[hangs]))
    snapshot = node.until_pod(
        "pod", lambda one: one.containers.get("init-0") and one.containers["init-0"].state == "CONTAINER_RUNNING"
    )

    async def look(name: str, target: str, script: str) -> None:
        handle = await node.workflow(snapshot)
        container = {"name": name, "image": BUSYBOX, "targetContainerName": target, "command": ["sh", "-c", script]}
        asked = AddEphemeralContainer("root@node-1", container)
        await handle.execute_update(names.ADD_EPHEMERAL_CONTAINER, asked, result_type=EphemeralContainerAdded)

    asyncio.run(look("waits", "main", "sleep 3600"))
    asyncio.run(look("helps", "init-0", "touch /proc/1/root/go; sleep 3600"))
    node.until_pod("pod", lambda one: one.ready and "running" in str(one.status["ephemeralContainerStatuses"]))


def own_hooks(node: TempoletNode) -> None:
    """A preStart hook fails once and is tried again; the worker dies during postStop, which runs again."""
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
    node.until(lambda: node.pod("pod") is None, "gone")


def resize(node: TempoletNode) -> None:
    """More cpu in place, less memory by a restart, then more cpu than the node has."""
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]

    def listed(generation: int, requested: str, cpu: str, memory: str) -> None:
        manifest = pod_manifest("pod", terminationGracePeriodSeconds=1)
        manifest["metadata"] |= {"uid": "uid-of-its-own", "generation": generation}
        requests = {"cpu": requested, "memory": "8Mi"}
        sized = {"requests": requests, "limits": {"cpu": cpu, "memory": memory}}
        manifest["spec"]["containers"][0] |= {"resources": sized, "resizePolicy": policy}
        node.apply(manifest)

    def until(condition: str, generation: int, *, there: bool) -> None:
        node.until_pod(
            "pod",
            lambda one: (
                one.ready
                and one.status["observedGeneration"] == generation
                and there == any(condition == known["type"] for known in one.status["conditions"])
            ),
        )

    listed(1, "50m", "200m", "64Mi")
    node.until_running("pod")
    listed(2, "50m", "400m", "64Mi")
    until("PodResizeInProgress", 2, there=False)
    listed(3, "50m", "400m", "32Mi")
    until("PodResizeInProgress", 3, there=False)
    listed(4, "900", "900", "32Mi")
    until("PodResizePending", 4, there=True)


LIVES: dict[str, Callable[[TempoletNode], None]] = {
    "plain": plain,
    "three-init-containers": three_init_containers,
    "early-ends": early_ends,
    "failing-init": failing_init,
    "crash-loop": crash_loop,
    "image-not-found": image_not_found,
    "deletion-during-start": deletion_during_start,
    "manifest-edit": manifest_edit,
    "sandbox-killed": sandbox_killed,
    "worker-restarted": worker_restarted,
    "continue-as-new": continue_as_new,
    "finished": finished,
    "listed-again": listed_again,
    "skipped-backoff": skipped_backoff,
    "readiness-gate": readiness_gate,
    "ephemeral-container": ephemeral_container,
    "resize": resize,
    "deadline": deadline,
    "evicted": evicted,
    "stop-shortened": stop_shortened,
    "image-changed": image_changed,
    "probes": probes,
    "sidecars": sidecars,
    "restart-rules": restart_rules,
    "restart-all": restart_all,
    "both-hooks": both_hooks,
    "failing-post-start": failing_post_start,
    "own-hooks": own_hooks,
}


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Iterator[Path]:
    """Give each life a folder of its own."""
    path = PLACE / request.node.callspec.id
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    yield path
    shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):  # another session records another life there
        PLACE.rmdir()


@pytest.mark.parametrize("life", LIVES.values(), ids=LIVES)
def test_record(
    life: Callable[[TempoletNode], None],
    place: Path,
    containerd: Containerd,
    temporal: TemporalServer,
    request: pytest.FixtureRequest,
) -> None:
    """Lead one life to its end, then write every run's history."""
    name = request.node.callspec.id
    quick = {
        "featureGates": {"KubeletCrashLoopBackOffMax": True},
        "crashLoopBackOff": {"maxContainerRestartPeriod": "2s"},
    }
    with TempoletNode(place, containerd, temporal, name="recorded", keys=quick) as node:
        life(node)
        node.remove_all()
        asyncio.run(write(node, name))


async def write(node: TempoletNode, life: str) -> None:
    """Write every run of every pod of this node that is not yet written."""
    client: Client = await node.client()
    seal = Seal(KeyFile(node.temporal_settings().key_file))
    HISTORIES.mkdir(exist_ok=True)
    runs = [one async for one in client.list_workflows("PodNode = 'recorded'")]
    mine = []
    for one in sorted(runs, key=lambda run: run.start_time):
        try:
            history = await client.get_workflow_handle(one.id, run_id=one.run_id).fetch_history()
            mine.append((one.id, decode_history(history, seal, NAMESPACE)))
        except Exception:  # noqa: BLE001 - another life's key: each node has its own
            continue
    for number, (workflow_id, history) in enumerate(mine):
        suffix = f"-{number + 1}" if len(mine) > 1 else ""
        content = {"workflowId": workflow_id, **json.loads(history.to_json())}
        (HISTORIES / f"v{CURRENT}-{life}{suffix}.json").write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")
