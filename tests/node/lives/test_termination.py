"""Does a pod terminate correctly on real containerd, from any state: in time, sooner if asked, with its termination message?"""

import asyncio
import re
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from temporalio.api.enums.v1 import EventType

from proto.pod_snapshot import PodSnapshot
from proto.temporal.activities.requests import RuntimeContainer, ShortenStop, StopContainer
from proto.temporal.names import DELETION_REQUESTED, NAMESPACE, SHORTEN_STOP, STOP_CONTAINER
from proto.temporal.signals import DeletionRequested
from tests.node.containerd_view import containers_of, no_addresses, sandboxes_of
from tests.node.operating import history
from tests.node.tempolet_node import BUSYBOX, TempoletNode, pod_manifest, wait
from worker.temporal.codec import PayloadCipher, plain_data_converter
from worker.temporal.decoded_history import decode_history
from worker.temporal.keys import KeyFile

DEAF = "trap '' TERM; while true; do sleep 1; done"
DEADLINE = 6
"""Seconds within which a pod starts even on a busy machine."""
STOPS: Final[Mapping[str, type[StopContainer | ShortenStop]]] = {
    STOP_CONTAINER: StopContainer,
    SHORTEN_STOP: ShortenStop,
}
NODE_KEYS: dict[str, object] = {}
"""Empty: the kubelet's back-off applies."""


def ended(snapshot: PodSnapshot, index: int = 0, kind: str = "containerStatuses") -> dict[str, Any]:
    """Return how a container exited."""
    end: dict[str, Any] = snapshot.status[kind][index]["state"]["terminated"]
    return end


def ask(node: TempoletNode, snapshot: PodSnapshot, grace: float) -> None:
    """Request a pod's deletion with this grace period, by a signal as an operator does."""

    async def signal() -> None:
        handle = await node.workflow(snapshot)
        wish = DeletionRequested("operator", "Deleted", "at once", timedelta(seconds=grace))
        await handle.signal(DELETION_REQUESTED, wish)

    asyncio.run(signal())


@dataclass(frozen=True)
class Stopping:
    """What a pod's history says since the only request for deletion by an operator."""

    asked: datetime
    stops: Sequence[StopContainer | ShortenStop]
    """In the order in which the workflow scheduled them."""
    waited: int
    """How many timers had fired before it scheduled the first of them."""
    ends: Sequence[datetime]
    """When its containers exited, by the runtime's clock; both stops of one container return the same exit."""


async def stopping(node: TempoletNode, snapshot: PodSnapshot) -> Stopping:
    """Read from a pod's history how it was stopped after an operator's request for deletion."""
    handle = await node.workflow(snapshot)
    history = decode_history(
        await handle.fetch_history(), PayloadCipher(KeyFile(node.temporal_settings().key_file)), NAMESPACE
    )
    read = plain_data_converter().payload_converter.from_payload
    asked: list[datetime] = []
    stops: list[StopContainer | ShortenStop] = []
    scheduled: set[int] = set()
    ends: set[datetime] = set()
    waited = 0
    for event in history.events:
        told = event.workflow_execution_signaled_event_attributes
        if (
            told.signal_name == DELETION_REQUESTED
            and read(told.input.payloads[0], DeletionRequested).source == "operator"
        ):
            asked.append(event.event_time.ToDatetime(tzinfo=UTC))
        action = event.activity_task_scheduled_event_attributes
        if (request := STOPS.get(action.activity_type.name)) is not None:
            scheduled.add(event.event_id)
            if asked:
                stops.append(read(action.input.payloads[0], request))
        if asked and not stops and event.event_type == EventType.EVENT_TYPE_TIMER_FIRED:
            waited += 1
        done = event.activity_task_completed_event_attributes
        if done.scheduled_event_id in scheduled:
            end = read(done.result.payloads[0], RuntimeContainer).finished_at
            assert end is not None
            ends.add(end)
    (at,) = asked
    return Stopping(at, stops, waited, sorted(ends))


def shortened_at_once(seen: Stopping, containers: list[str]) -> None:
    """Check that each container had the second that an operator asked for, counted from the request, and not its own 30."""
    assert seen.waited == 0
    assert [(one.name, one.grace) for one in seen.stops] == [(name, timedelta(seconds=1)) for name in containers]
    assert len({one.asked_at for one in seen.stops}) == 1
    assert len(seen.ends) == len(containers)
    assert seen.asked + timedelta(seconds=1) <= seen.ends[0] <= seen.ends[-1] < seen.asked + timedelta(seconds=30)


def gone(node: TempoletNode, name: str, last: PodSnapshot) -> None:
    """Wait until nothing of a pod is left."""
    node.until_gone(name)
    node.until(lambda: not (node.root_dir / "pods" / last.uid).exists(), f"{name}'s files gone")
    assert sandboxes_of(node.containerd, last.uid) == []
    assert containers_of(node.containerd, last.uid) == []


def test_a_pod_that_is_active_for_too_long_fails(node: TempoletNode) -> None:
    """Stopped at activeDeadlineSeconds, Failed with the kubelet's message and in its history, kept until its manifest is removed."""
    node.apply(pod_manifest("limited", activeDeadlineSeconds=DEADLINE))
    running = node.until_running("limited")
    snapshot = node.until_pod("limited", lambda one: one.lifecycle == "terminated")
    said = "Pod was active on the node longer than the specified deadline"
    assert (snapshot.phase, snapshot.reason, snapshot.message) == ("Failed", "DeadlineExceeded", said)
    assert (snapshot.status["reason"], snapshot.status["message"]) == ("DeadlineExceeded", said)
    exceeded_at = datetime.fromisoformat(running.status["startTime"]) + timedelta(seconds=DEADLINE)
    ended_at = datetime.fromisoformat(ended(snapshot)["finishedAt"])
    assert exceeded_at <= ended_at < exceeded_at + timedelta(seconds=30)  # a busy machine took 3.3 s, 1 s of it grace
    assert len(containers_of(node.containerd, snapshot.uid)) == 1
    told = history(node, snapshot)
    assert f"activeDeadlineSeconds: the pod is stopped at {exceeded_at:%H:%M:%S}" in told
    assert f"DeadlineExceeded: {said}" in told
    assert "pod Failed" in told
    node.remove("limited")
    gone(node, "limited", snapshot)


def test_a_deadline_outlives_a_worker(node: TempoletNode) -> None:
    """It passes while the worker is dead: the pod is stopped as soon as a worker runs."""
    node.apply(pod_manifest("outlived", activeDeadlineSeconds=DEADLINE))
    node.until_running("outlived")
    node.stop("worker")
    time.sleep(DEADLINE)
    node.start("worker")
    snapshot = node.until_pod("outlived", lambda one: one.lifecycle == "terminated")
    assert snapshot.reason == "DeadlineExceeded"
    node.remove("outlived")
    gone(node, "outlived", snapshot)


@pytest.mark.parametrize("grace", [pytest.param(1, id="grace-1"), pytest.param(0, id="by-force")])
def test_a_second_deletion_with_a_shorter_grace(node: TempoletNode, grace: float) -> None:
    """A container that ignores SIGTERM with a grace period of 30 s gets a second one, of a second, and exits by it."""
    name = f"deaf-{grace:g}"
    node.apply(pod_manifest(name, DEAF, terminationGracePeriodSeconds=30))
    snapshot = node.until_running(name)
    node.remove(name)
    node.until_pod(name, lambda one: one.deleting)
    time.sleep(1)
    assert node.pod(name) is not None
    ask(node, snapshot, grace)
    gone(node, name, snapshot)
    shortened_at_once(wait(stopping(node, snapshot)), ["main"])
    told = history(node, snapshot)
    assert "the stop of container main was shortened to 1.00 s of grace" in told
    # whichever stop returns first reports the exit
    assert re.search("container main stopped: exit 137 Error, .* grace.*; why: ManifestRemoved", told)


def sidecar(command: str) -> dict[str, Any]:
    """Build a sidecar."""
    return {"name": "side", "image": BUSYBOX, "command": ["sh", "-c", command], "restartPolicy": "Always"}


def test_a_sidecar_s_share_is_shortened_too(node: TempoletNode) -> None:
    """Both ignore SIGTERM, with a grace period of 30 s: the sidecar also gets only the shorter one."""
    node.apply(pod_manifest("pair", DEAF, terminationGracePeriodSeconds=30, initContainers=[sidecar(DEAF)]))
    snapshot = node.until_running("pair")
    node.remove("pair")
    node.until_pod("pair", lambda one: one.deleting)
    ask(node, snapshot, 1)
    gone(node, "pair", snapshot)
    shortened_at_once(wait(stopping(node, snapshot)), ["main", "side"])


def test_a_pod_with_a_sidecar_that_is_active_for_too_long_fails(node: TempoletNode) -> None:
    """Whatever the exit codes of its containers; the sidecar stops last."""
    kind = "trap 'exit 0' TERM; while true; do sleep 0.1; done"
    spec = {"initContainers": [sidecar(kind)], "activeDeadlineSeconds": DEADLINE, "terminationGracePeriodSeconds": 10}
    node.apply(pod_manifest("pair-limited", kind, **spec))
    node.until_running("pair-limited")
    snapshot = node.until_pod("pair-limited", lambda one: one.lifecycle == "terminated")
    assert (snapshot.phase, snapshot.status["reason"]) == ("Failed", "DeadlineExceeded")
    main, side = ended(snapshot), ended(snapshot, 0, "initContainerStatuses")
    assert (main["exitCode"], side["exitCode"]) == (0, 0)
    assert main["finishedAt"] <= side["finishedAt"]
    node.remove("pair-limited")
    gone(node, "pair-limited", snapshot)


def test_the_end_of_the_log_speaks_for_a_silent_failure(node: TempoletNode) -> None:
    """FallbackToLogsOnError: at most the last 80 lines; a message file takes precedence; a success reports nothing."""
    manifest = pod_manifest("words", restartPolicy="Never")
    count = "i=0; while [ $i -lt 200 ]; do echo line-$i; i=$((i+1)); done"
    commands = {"log": f"{count}; exit 1", "file": f"{count}; echo why > /dev/termination-log; exit 1", "good": count}
    manifest["spec"]["containers"] = [
        {
            "name": name,
            "image": BUSYBOX,
            "command": ["sh", "-c", command],
            "terminationMessagePolicy": "FallbackToLogsOnError",
        }
        for name, command in commands.items()
    ]
    node.apply(manifest)
    snapshot = node.until_pod("words", lambda one: one.lifecycle == "terminated")
    log, file, good = (ended(snapshot, index) for index in range(3))
    assert log["message"].splitlines() == [f"line-{number}" for number in range(120, 200)]
    assert (file["message"], good.get("message")) == ("why\n", None)
    node.remove("words")
    gone(node, "words", snapshot)


def test_a_pod_says_twelve_kibibytes_in_all(node: TempoletNode) -> None:
    """Six containers with 4 KiB each share that limit."""
    manifest = pod_manifest("loud", restartPolicy="Never")
    say = "head -c 5000 /dev/zero | tr '\\0' x > /dev/termination-log; exit 1"
    manifest["spec"]["containers"] = [
        {"name": f"c{number}", "image": BUSYBOX, "command": ["sh", "-c", say]} for number in range(6)
    ]
    node.apply(manifest)
    snapshot = node.until_pod("loud", lambda one: one.lifecycle == "terminated")
    assert [len(ended(snapshot, number)["message"]) for number in range(6)] == [2048] * 6
    node.remove("loud")
    gone(node, "loud", snapshot)


@pytest.mark.parametrize("number", [0, 1])
def test_deletion_in_each_init_container(node: TempoletNode, number: int) -> None:
    """The running one is stopped, and nothing after it starts."""
    name = f"in-init-{number}"
    init = [
        {"name": f"i{one}", "image": BUSYBOX, "command": ["sh", "-c", "exit 0" if one < number else "sleep 3600"]}
        for one in range(2)
    ]
    node.apply(pod_manifest(name, initContainers=init))
    snapshot = node.until_pod(
        name, lambda one: f"i{number}" in one.containers and one.containers[f"i{number}"].state.endswith("RUNNING")
    )
    node.remove(name)
    gone(node, name, snapshot)
    told = history(node, snapshot)
    assert f"container i{number} stopped" in told
    assert "container main started" not in told


def test_deletion_while_the_image_is_pulled(node: TempoletNode) -> None:
    """The pull from a registry that never responds is cancelled."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        manifest = pod_manifest("pulls")
        manifest["spec"]["containers"][0]["image"] = f"127.0.0.1:{silent.getsockname()[1]}/nothing:1"
        node.apply(manifest)
        snapshot = node.until_pod("pulls", lambda one: one.sandbox_ready)
        node.remove("pulls")
        gone(node, "pulls", snapshot)


def test_deletion_while_the_sandbox_hangs(node: TempoletNode) -> None:
    """It is given up after a few seconds, with the reason shown meanwhile and afterwards; the next pod runs."""
    with no_addresses(node.containerd):
        node.apply(pod_manifest("hangs"))
        snapshot = node.until_pod("hangs", lambda one: not one.sandbox_id)
        node.remove("hangs")
        going = node.until_pod("hangs", lambda one: one.deleting)
        assert going.message.endswith("waits until its sandbox is made, or given up after a few seconds")
        gone(node, "hangs", snapshot)
    told = history(node, snapshot)
    assert "sandbox attempt 0 failed after" in told
    assert ": given up 5 s after the pod began to terminate" in told
    node.apply(pod_manifest("hangs"))
    again = node.until_running("hangs")
    node.until(lambda: len(sandboxes_of(node.containerd, again.uid)) == 1, "one sandbox")
    node.remove("hangs")
    gone(node, "hangs", again)
