"""Is a critical pod admitted once those are gone that were stopped for it, and nobody stopped in vain?"""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from proto.temporal.operator import EvictPod, Rejection
from proto.temporal.pod import Lifecycle
from proto.temporal.pod_inputs import Rejected
from tests.worker.poller.admission.full_node import CRITICAL, FullNode, asking, static, workflow_of
from worker.delivery.lead import LeadUnavailable
from worker.delivery.pod_requests import GONE
from worker.poller.admission import preemptions

NOW = timedelta()


@pytest.fixture
def node(tmp_path: Path) -> FullNode:
    """Return a node of a cluster, of whose two cpus 300 thousandths are free."""
    made = FullNode(tmp_path)
    made.running(asking("large", "1"))
    made.running(asking("small", "700m"))
    return made


def judged(node: FullNode, uid: str = "vital", cpu: str = "500m", priority: int = CRITICAL) -> asyncio.Task[str]:
    """Begin to judge a pod."""
    return asyncio.create_task(node.admitted(asking(uid, cpu, priority=priority)))


async def test_it_waits_for_the_pod_that_is_stopped(node: FullNode) -> None:
    """The smallest that suffices, with its own grace; it may end in its own time."""
    vital = judged(node)
    await node.requests.until()
    node.shows("small", Lifecycle.TERMINATING)
    await asyncio.sleep(0)
    assert not vital.done()
    node.ends("small")
    assert await vital == ""
    ((workflow_id, asked),) = node.requests.asked
    assert workflow_id == workflow_of("small")
    assert asked == EvictPod(
        "",
        "Preempting",
        "Preempted in order to admit critical pod",
        why="default/vital needs 200m cpu more than is left, and this Burstable pod requests 700m cpu; "
        "not needed besides: default/large (Burstable)",
        preempted_for="default/vital",
    )
    assert node.counted == ["cpu"]


async def test_several_are_stopped_at_once(node: FullNode) -> None:
    """And all of them awaited."""
    vital = judged(node, cpu="1900m")
    await node.requests.until()
    node.ends("large")
    await asyncio.sleep(0)
    assert not vital.done()
    node.ends("small")
    assert await vital == ""
    assert sorted(node.asked()) == ["large", "small"]
    assert node.counted == ["cpu", "cpu"]


@pytest.mark.parametrize(
    ("cpu", "priority", "reason"),
    [
        pytest.param("500m", CRITICAL - 1, "OutOfcpu", id="an-ordinary-pod"),
        pytest.param("3", CRITICAL, "UnexpectedAdmissionError", id="more-than-all-have"),
    ],
)
async def test_who_is_rejected(node: FullNode, cpu: str, priority: int, reason: str) -> None:
    """Nobody is stopped for it."""
    assert await judged(node, cpu=cpu, priority=priority) == reason
    assert node.asked() == []


async def test_another_reason_besides(node: FullNode) -> None:
    """A critical pod is told of that one, and nobody is stopped."""
    assert await node.admitted(asking("vital", "500m", priority=CRITICAL, nodeSelector={"a": "b"})) == "NodeAffinity"
    assert node.asked() == []


async def test_a_pod_that_the_node_would_not_run(node: FullNode) -> None:
    """Such as one with a forbidden sysctl, or while the machine shuts down."""
    node.would_refuse = Rejected("NodeShutdown", "it shuts down")
    assert await judged(node) == "NodeShutdown"
    assert node.asked() == []
    assert await judged(node, "another", priority=0) == "OutOfcpu"


async def test_a_pod_with_a_field_that_nobody_carries_out(node: FullNode) -> None:
    """It is told of the field, and nobody is stopped."""
    lacking = asking("vital", "500m", priority=CRITICAL, volumes=[{"name": "v", "flexVolume": {}}])
    assert await node.admitted(lacking) == "PodFeatureUnsupported"
    assert node.asked() == []


async def test_who_comes_meanwhile(node: FullNode) -> None:
    """A pod that fits beside all is admitted; one that does not is judged once the room is free."""
    vital = judged(node)
    await node.requests.until()
    waits = judged(node, "waits", "400m", 0)
    too_large = judged(node, "too-large", "600m", 0)
    await asyncio.sleep(0)
    assert await judged(node, "fits", "0", 0) == ""
    assert not waits.done()
    node.ends("small")
    assert (await vital, await waits, await too_large) == ("", "", "OutOfcpu")
    assert node.asked() == ["small"]


async def test_two_critical_pods(node: FullNode) -> None:
    """Each has room of its own."""
    first, second = judged(node, "first"), judged(node, "second")
    await node.requests.until()
    node.ends("small")
    assert await first == ""
    assert await second == ""
    assert node.asked() == ["small"]
    third = judged(node, "third", "1")
    await node.requests.until(2)
    node.ends("large")
    assert await third == ""
    assert node.asked() == ["small", "large"]


@pytest.mark.parametrize(
    ("answers", "counted", "asked"),
    [
        pytest.param([Rejection("Going", "it is terminating")], ["cpu"], 1, id="it-goes-already"),
        pytest.param([LeadUnavailable("away"), None], ["cpu"], 2, id="nobody-answers-at-first"),
    ],
)
async def test_answers(
    node: FullNode,
    monkeypatch: pytest.MonkeyPatch,
    answers: list[Rejection | Exception | None],
    counted: list[str],
    asked: int,
) -> None:
    """It is awaited all the same."""
    monkeypatch.setattr(preemptions, "_AGAIN", NOW)
    node.requests.answers[workflow_of("small")] = answers
    vital = judged(node)
    await node.requests.until(asked)
    assert not vital.done()
    node.ends("small")
    assert await vital == ""
    assert (node.counted, len(node.requests.asked)) == (counted, asked)


async def test_a_pod_that_has_finished_meanwhile(node: FullNode) -> None:
    """It needs no stop, and does not count."""
    node.requests.answers[workflow_of("small")] = [Rejection("Finished", "nothing is left")]
    assert await judged(node) == ""
    assert node.counted == []


async def test_a_pod_whose_workflow_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was admitted a moment ago, so it is asked until it has one."""
    monkeypatch.setattr(preemptions, "_AGAIN", NOW)
    node = FullNode(tmp_path)
    assert await node.admitted(asking("fresh", "2")) == ""
    node.requests.answers[workflow_of("fresh")] = [GONE, GONE, None]
    vital = judged(node)
    await node.requests.until(3)
    node.shows("fresh", Lifecycle.TERMINATING)
    assert not vital.done()
    node.ends("fresh")
    assert await vital == ""


async def test_a_pod_that_does_not_end_in_time(node: FullNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """The critical one is admitted as by the kubelet, and nothing is counted."""
    monkeypatch.setattr(preemptions, "longest_end", lambda _: NOW)
    assert await judged(node) == ""
    assert (node.asked(), node.counted) == (["small"], [])


async def test_a_pod_that_is_removed_meanwhile(node: FullNode) -> None:
    """With its folder."""
    vital = judged(node)
    await node.requests.until()
    for one in (folder := node.root_dir / "pods" / "small").iterdir():
        one.unlink()
    folder.rmdir()
    assert await vital == ""


@pytest.mark.parametrize(
    ("alone", "stopped"),
    [
        pytest.param(False, [], id="a-static-pod-of-a-cluster-is-critical"),
        pytest.param(True, ["small"], id="on-a-node-alone-it-is-not"),
    ],
)
async def test_static_pods(tmp_path: Path, alone: bool, stopped: list[str]) -> None:
    """Where every pod is static, only those of the system are critical."""
    node = FullNode(tmp_path, alone=alone)
    node.running(static(asking("small", "1700m")))
    vital = static(asking("vital", "500m", priorityClassName="system-node-critical"))
    judging = asyncio.create_task(node.admitted(vital, static=True))
    if stopped:
        await node.requests.until()
        node.ends("small")
    assert (await judging == "") is bool(stopped)
    assert node.asked() == stopped
