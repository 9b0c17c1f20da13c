"""Is the exit of a short init container returned with its start, and is none lost or repeated if the worker dies then?"""

import signal
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from proto.cri.v1 import api_pb2 as cri
from proto.pod_snapshot import PodSnapshot
from proto.temporal import names
from proto.temporal.pod import ContainerState
from tests.node.acting import Acting, start_request
from tests.node.containerd_view import containers_of
from tests.node.tempolet_node import BUSYBOX, TempoletNode, pod_manifest, tempolet_node, wait
from worker.standalone.containerd import Containerd
from worker.standalone.temporal_server import TemporalServer

LONG = timedelta(seconds=10)
"""Long enough for a loaded machine."""


async def test_an_end_comes_with_the_answer_of_the_start(acting: Acting) -> None:
    """With everything that a re-read returns: times, exit code, reason, and the tail of the log; also for a second attempt."""
    pod = acting.pod()
    sandbox = await acting.sandbox(pod)
    command = ["sh", "-c", "echo oops; sleep 0.2; exit 3"]
    request = start_request(pod, sandbox, command=command, terminationMessagePolicy="FallbackToLogsOnError")
    ended = await acting.run(acting.containers.start_container, replace(request, end_within=LONG))
    assert (ended.state, ended.exit_code, ended.reason) == (ContainerState.EXITED, 3, "Error")
    assert ended.message == "oops\n"
    assert (await acting.read(pod)).containers == (ended,)
    again = await acting.run(acting.containers.start_container, replace(request, end_within=LONG))
    assert again == replace(ended, adopted=True)


async def test_a_second_try_waits_for_the_end_as_well(acting: Acting) -> None:
    """The worker of the first attempt died while waiting: the container is found running, and its exit is returned."""
    pod = acting.pod()
    request = start_request(pod, await acting.sandbox(pod), command=["sleep", "0.5"])
    running = await acting.run(acting.containers.start_container, request)
    ended = await acting.run(acting.containers.start_container, replace(request, end_within=LONG))
    assert (ended.container_id, ended.exit_code, ended.adopted) == (running.container_id, 0, True)


@pytest.fixture
def node(tmp_path: Path, containerd: Containerd, temporal: TemporalServer) -> Iterator[TempoletNode]:
    """Run a node for one test."""
    with tempolet_node(tmp_path, containerd, temporal) as made:
        yield made


def instances(node: TempoletNode, name: str) -> list[cri.Container]:
    """Return all of this node's instances of a container in the runtime."""
    ours = [
        one for one in containers_of(node.containerd, "") if one.labels["io.kubernetes.pod.name"].endswith(node.name)
    ]
    return [one for one in ours if one.labels["io.kubernetes.container.name"] == name]


def test_a_worker_that_dies_while_it_waits_for_an_end_loses_and_repeats_nothing(node: TempoletNode) -> None:
    """Each init container has run once when the pod runs, and its exit is reported correctly."""
    init = [{"name": name, "image": BUSYBOX, "command": ["sh", "-c", "sleep 0.1"]} for name in ("first", "second")]
    node.apply(pod_manifest("inits", initContainers=init))
    node.until(lambda: instances(node, "first"), "the first init container made")
    node.stop("worker", signal.SIGKILL)
    node.start("worker")
    snapshot = node.until_running("inits")
    for status in snapshot.status["initContainerStatuses"]:
        end = status["state"]["terminated"]
        assert (status["restartCount"], end["exitCode"], end["reason"]) == (0, 0, "Completed")
        assert [one.metadata.attempt for one in instances(node, status["name"])] == [0]


def test_an_init_container_that_takes_its_time_is_seen_running(node: TempoletNode) -> None:
    """Its start does not wait for its exit, which arrives as a hint."""
    init = [{"name": "first", "image": BUSYBOX, "command": ["sleep", "3"]}]
    node.apply(pod_manifest("slow", initContainers=init))
    node.until_pod("slow", lambda one: "running" in one.status["initContainerStatuses"][0]["state"])
    snapshot = node.until_running("slow")
    assert names.RUNTIME_CHANGED in wait(_signals(node, snapshot))


async def _signals(node: TempoletNode, snapshot: PodSnapshot) -> list[str]:
    events = (await (await node.workflow(snapshot)).fetch_history()).events
    return [one.workflow_execution_signaled_event_attributes.signal_name for one in events]
