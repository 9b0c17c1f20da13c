"""Do probes on real containerd make a pod ready, restart it and delay its start, and survive the worker that runs them?"""

import asyncio
import itertools
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc

from activities.execution.growing_intervals import AT_ONCE
from proto.pod_snapshot import PodSnapshot
from proto.temporal.names import NAMESPACE, PROBE_VERDICT
from tests.node.containerd_view import container_pid
from tests.node.lives.test_pod_lives import container_status, gone
from tests.node.pod_story import story
from tests.node.tempolet_node import TempoletNode, pod_manifest, wait
from tests.patience import PATIENCE
from worker.temporal.codec import PayloadCipher
from worker.temporal.decoded_history import decode_history
from worker.temporal.keys import KeyFile
from workflows.search_attributes import PHASE, READY

QUICK = {"periodSeconds": 1, "failureThreshold": 1, "timeoutSeconds": 20}
"""A verdict every second, lenient enough for a busy machine."""
NODE_KEYS: dict[str, object] = {}
"""Empty: the kubelet's back-off applies."""
READY_TOLD = "container main is ready"
UNREADY_TOLD = "container main is not ready, its readiness probe failed: HTTP probe failed with statuscode: 404"


def probed(name: str, command: str = "sleep 3600", **fields: Any) -> dict[str, Any]:
    """Build a manifest whose container has these probes."""
    manifest = pod_manifest(name, command)
    manifest["spec"]["containers"][0].update(fields)
    return manifest


def has(path: str) -> dict[str, Any]:
    """Build a probe that succeeds while a file exists."""
    return {"exec": {"command": ["test", "-e", path]}, **QUICK}


def inside(node: TempoletNode, snapshot: PodSnapshot, path: str) -> Path:
    """Return the node's path of a file in the container."""
    pid = container_pid(node.containerd, snapshot.containers["main"].container_id)
    return Path(f"/proc/{pid}/root{path}")


def until_up(node: TempoletNode, name: str) -> PodSnapshot:
    """Wait until a pod runs, ready or not."""
    return node.until_pod(name, lambda one: one.phase == "Running")


def unready(snapshot: PodSnapshot) -> bool:
    """Return whether a pod is not ready."""
    return not snapshot.ready


async def events_of(node: TempoletNode, snapshot: PodSnapshot) -> list[Any]:
    """Read a pod's history, decrypted."""
    handle = await node.workflow(snapshot)
    history = decode_history(
        await handle.fetch_history(), PayloadCipher(KeyFile(node.temporal_settings().key_file)), NAMESPACE
    )
    return list(history.events)


async def is_told(node: TempoletNode, snapshot: PodSnapshot) -> bool:
    """Return whether the history has what the snapshot shows: the node shows it first, and readiness before it is signalled."""
    description = await (await node.workflow(snapshot)).describe()
    told = description.typed_search_attributes
    shown = told.get(PHASE) == snapshot.phase and told.get(READY) == str(snapshot.ready)
    return shown and not description.raw_description.HasField("pending_workflow_task")


def told_events(node: TempoletNode, snapshot: PodSnapshot) -> int:
    """Count the events of a pod's history once it has what the snapshot shows."""
    node.until(lambda: wait(is_told(node, snapshot)), "the history has what the node shows")
    return len(wait(events_of(node, snapshot)))


def test_a_pod_is_ready_as_long_as_its_readiness_probe_succeeds(node: TempoletNode) -> None:
    """By HTTP at a named port: 404, then 200, then 404 again; the story reports each change once."""
    probe = {"httpGet": {"port": "web", "path": "/ready"}, **QUICK}
    port = [{"name": "web", "containerPort": 8080}]
    node.apply(probed("readiness", "mkdir /www; exec httpd -f -p 8080 -h /www", readinessProbe=probe, ports=port))
    snapshot = until_up(node, "readiness")
    assert unready(snapshot)
    www = inside(node, snapshot, "/www")
    node.until(www.exists, "its folder")
    (www / "ready").touch()
    snapshot = node.until_running("readiness")
    (www / "ready").unlink()
    snapshot = node.until_pod("readiness", unready)
    assert snapshot.restarts == 0
    told: list[str] = []

    def told_both() -> bool:
        told[:] = [line for line in story(node, snapshot) if "ready" in line and line.startswith("container")]
        return READY_TOLD in told and told[-1] == UNREADY_TOLD

    node.until(told_both, "both changes in the story: the node shows them before they are signalled")
    gone(node, "readiness", snapshot)


def changes_of(node: TempoletNode, name: str, count: int) -> list[float]:
    """Wait until a pod's readiness has changed so often; returns when."""
    times: list[float] = []
    last: bool | None = None

    def seen() -> bool:
        nonlocal last
        if (snapshot := node.pod(name)) is not None and snapshot.ready is not last:
            last = snapshot.ready
            times.append(time.monotonic())
        return len(times) > count

    node.until(seen, f"{count} changes of readiness", patience=2 * PATIENCE)
    return times


def test_a_readiness_that_flaps_is_shown_at_once_and_recorded_seldom(node: TempoletNode) -> None:
    """Also by the next worker: the status follows within 10 s, and the history gets one line for many changes."""
    flap = ["sh", "-c", "test -e /x && exec rm /x; touch /x; head -c 3000 /dev/urandom; exit 1"]
    node.apply(probed("flapping", readinessProbe={**QUICK, "exec": {"command": flap}}))
    snapshot = until_up(node, "flapping")
    changes_of(node, "flapping", AT_ONCE + 4)
    node.stop("worker", signal.SIGKILL)
    node.start("worker")
    times = changes_of(node, "flapping", 6)
    assert max(later - one for one, later in itertools.pairwise(times)) < 10
    events = wait(events_of(node, snapshot))
    verdicts = [one for one in events if one.workflow_execution_signaled_event_attributes.signal_name == PROBE_VERDICT]
    assert len(verdicts) <= AT_ONCE + 3
    gone(node, "flapping", snapshot)


def test_a_failed_liveness_probe_restarts_the_container(node: TempoletNode) -> None:
    """With the probe's own grace period, and the reason is reported."""
    probe = {**QUICK, "exec": {"command": ["sh", "-c", "cat /tmp/sick && exit 1 || exit 0"]}}
    node.apply(probed("liveness", livenessProbe={**probe, "terminationGracePeriodSeconds": 2}))
    first = node.until_running("liveness")
    inside(node, first, "/tmp").mkdir(exist_ok=True)
    inside(node, first, "/tmp/new").write_text("I am sick\n")
    inside(node, first, "/tmp/new").rename(inside(node, first, "/tmp/sick"))  # complete before the probe reads it
    second = node.until_pod("liveness", lambda one: one.ready and one.restarts == 1)
    assert container_status(second)["lastState"]["terminated"]["exitCode"] in (137, 143)
    told = story(node, second)
    assert "container main failed its liveness probe: I am sick" in told
    stopped = next(line for line in told if line.startswith("container main stopped"))
    assert "of 2.00 s" in stopped
    assert stopped.endswith("why: Container main failed liveness probe, will be restarted")
    time.sleep(2)  # the new instance passes its probe: there is no event to wait for
    assert node.until_running("liveness").restarts == 1
    gone(node, "liveness", second)


def test_a_startup_probe_holds_the_others_back(node: TempoletNode) -> None:
    """A liveness probe that would fail does not run before the container has started."""
    startup = {**has("/started"), "failureThreshold": 60}
    node.apply(probed("startup", startupProbe=startup, livenessProbe=has("/started"), readinessProbe=has("/started")))
    snapshot = until_up(node, "startup")
    assert container_status(snapshot)["started"] is False
    time.sleep(2.5)  # periods in which the liveness probe would have failed
    snapshot = until_up(node, "startup")
    assert (snapshot.restarts, snapshot.ready, container_status(snapshot)["started"]) == (0, False, False)
    inside(node, snapshot, "/started").touch()
    snapshot = node.until_running("startup")
    assert container_status(snapshot)["started"] is True
    assert "container main passed its startup probe" in story(node, snapshot)
    gone(node, "startup", snapshot)


def test_a_failed_startup_probe_restarts_the_container(node: TempoletNode) -> None:
    """After failureThreshold failures."""
    node.apply(probed("late", startupProbe={"tcpSocket": {"port": 81}, "periodSeconds": 1, "failureThreshold": 2}))
    snapshot = node.until_pod("late", lambda one: one.restarts == 1)
    told = story(node, snapshot)
    ip = snapshot.status["podIP"]
    assert f"container main failed its startup probe: dial tcp {ip}:81: connect: connection refused" in told
    gone(node, "late", snapshot)


def test_a_command_that_does_not_end_has_failed(node: TempoletNode) -> None:
    """When the probe's timeout is over."""
    probe = {"exec": {"command": ["sleep", "60"]}, **QUICK, "timeoutSeconds": 1}
    node.apply(probed("slow", readinessProbe=probe))
    snapshot = until_up(node, "slow")
    wanted = 'its readiness probe failed: command timed out: "sleep 60" timed out after 1s'
    node.until(lambda: any(wanted in line for line in story(node, snapshot)), "the timeout told")
    gone(node, "slow", snapshot)


def test_verdicts_survive_a_killed_worker(node: TempoletNode) -> None:
    """Ready and not-started states stay without a new event, and probing continues."""
    node.apply(
        probed("ready", "touch /ready; exec sleep 3600", readinessProbe=has("/ready"), livenessProbe=has("/ready"))
    )
    node.apply(probed("unstarted", startupProbe={**has("/started"), "failureThreshold": 600}))
    ready, unstarted = node.until_running("ready"), until_up(node, "unstarted")
    events = told_events(node, ready), told_events(node, unstarted)
    node.stop("worker", signal.SIGKILL)
    node.start("worker")
    node.until(lambda: node.log("worker").count("worker started") >= 2, "the next worker")
    time.sleep(3)  # periods of the new loops, in which nothing must be reported
    assert node.until_running("ready").restarts == 0
    assert container_status(until_up(node, "unstarted"))["started"] is False
    assert (len(wait(events_of(node, ready))), len(wait(events_of(node, unstarted)))) == events
    inside(node, ready, "/ready").unlink()
    node.until_pod("ready", lambda one: one.restarts == 1)
    inside(node, unstarted, "/started").touch()
    snapshot = node.until_running("unstarted")
    gone(node, "ready", node.until_running("ready"))
    gone(node, "unstarted", snapshot)


def test_a_kindly_stopped_worker_hands_its_probes_over(node: TempoletNode) -> None:
    """The next worker continues at once, and nothing is reported."""
    node.apply(probed("handed", "touch /ready; exec sleep 3600", readinessProbe=has("/ready")))
    ready = node.until_running("handed")
    events = told_events(node, ready)
    node.stop("worker")
    node.start("worker")
    inside(node, ready, "/ready").unlink()
    node.until_pod("handed", unready)

    def signals() -> int:
        told = wait(events_of(node, ready))[events:]
        return sum(one.HasField("workflow_execution_signaled_event_attributes") for one in told)

    node.until(signals, "the verdict is in the history, which the status may precede")
    assert signals() == 1
    gone(node, "handed", ready)


def test_a_killed_container_is_probed_anew(node: TempoletNode) -> None:
    """The previous instance's verdicts don't count for the next one."""
    node.apply(probed("again", readinessProbe=has("/ready")))
    first = until_up(node, "again")
    inside(node, first, "/ready").touch()
    first = node.until_running("again")
    os.kill(container_pid(node.containerd, first.containers["main"].container_id), signal.SIGKILL)
    second = node.until_pod("again", lambda one: one.restarts == 1 and one.phase == "Running")
    assert unready(second)
    node.until(lambda: container_status(node.until_pod("again", unready))["state"].get("running"), "running")
    inside(node, node.until_pod("again", unready), "/ready").touch()
    gone(node, "again", node.until_running("again"))


def test_readiness_by_grpc_on_the_hosts_network(node: TempoletNode) -> None:
    """Sent to the node's own address."""
    answer = [b"\x08\x02"]

    async def check(_: bytes, __: Any) -> bytes:
        return answer[0]

    async def live(ready: Callable[[int], None]) -> None:
        server = grpc.aio.server()
        handler = grpc.unary_unary_rpc_method_handler(check)
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": handler}),)
        )
        port = server.add_insecure_port("0.0.0.0:0")
        await server.start()
        await asyncio.to_thread(ready, port)
        await server.stop(None)

    def act(port: int) -> None:
        manifest = probed("grpc", readinessProbe={"grpc": {"port": port}, **QUICK})
        manifest["spec"]["hostNetwork"] = True
        node.apply(manifest)
        snapshot = until_up(node, "grpc")
        wanted = 'its readiness probe failed: service unhealthy (responded with "NOT_SERVING")'
        node.until(lambda: any(wanted in line for line in story(node, snapshot)), "the first verdict")
        answer[0] = b"\x08\x01"
        gone(node, "grpc", node.until_running("grpc"))

    asyncio.run(live(act))
