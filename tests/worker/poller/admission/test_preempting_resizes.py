"""Is a critical pod's resize granted once those are gone that were stopped for it, and nobody stopped in vain?

Kubelet 1.36.3: canAdmitPod of allocation_manager.go asks the same handlers for a resize as for a new pod, so predicate.go calls
HandleAdmissionFailure of preemption.go for both.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from proto.temporal.operator import EvictPod
from proto.temporal.pod import Lifecycle, PodJson
from proto.temporal.pod_inputs import Rejected
from tests.worker.poller.admission.full_node import CRITICAL, FullNode, asking
from worker.poller.admission import preemptions
from worker.poller.resizes import resizes
from worker.poller.resizes.allocated_pods import AllocatedPods
from worker.poller.resizes.dependencies import ResizeDependencies
from worker.poller.resizes.resizes import Resizes
from worker.telemetry.kubelet.resizes import ResizeCounts
from workflows.decide.resources.resizes import ResizeSettings


class Resized:
    """The node's resizes, and its admission."""

    def __init__(self, node: FullNode) -> None:
        self.node, self._more = node, asyncio.Event()
        self.resizes = Resizes(
            ResizeDependencies(
                allocated=AllocatedPods(node.root_dir),
                settings=ResizeSettings(),
                snapshot=node.known.of,
                present=lambda: node.present,
                sources_ready=lambda: True,
                shuts_down=lambda: False,
                counts=ResizeCounts(CollectorRegistry()),
            )
        )
        self.resizes.room, self.resizes.on_change = node.admission, self._changed
        node.admission.in_use = self.resizes.in_use

    async def start(self, pod: PodJson) -> None:
        """Admit a pod that then runs."""
        self.resizes.listed(pod)
        assert await self.node.admitted(pod) == ""
        self.resizes.admitted(pod)
        self.node.running(pod)

    def ask(self, uid: str, cpu: str, priority: int = CRITICAL, **spec: object) -> None:
        """List a pod that asks for so much now."""
        self.node.present[uid] = self.resizes.listed(asking(uid, cpu, priority=priority, **spec)).pod
        self.resizes.settle()

    def cpu(self, uid: str) -> str:
        """Return what a pod is granted."""
        found: str = self.resizes.of(uid).pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]
        return found

    def deferred(self, uid: str) -> str:
        """Return why a pod is not granted more; empty if it is not known, or granted."""
        found = self.resizes.of(uid).pending
        return f"{found.reason} {found.cause}: {found.message}" if found else ""

    async def changed(self) -> None:
        """Wait until some pod's workflow is told something."""
        async with asyncio.timeout(10):
            await self._more.wait()
        self._more.clear()

    def _changed(self, uid: str) -> None:
        self.node.present[uid] = self.resizes.of(uid).pod
        self._more.set()


@pytest.fixture
def node(tmp_path: Path) -> FullNode:
    """Return a node of two cpus."""
    return FullNode(tmp_path)


@pytest.fixture
async def pods(node: FullNode, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Resized]:
    """Return its pods: critical ones of 300 and 100 thousandths, and two others that leave 100."""
    monkeypatch.setattr(resizes, "LOOK", 0.01)
    made = Resized(node)
    await made.start(asking("vital", "300m", priority=CRITICAL))
    await made.start(asking("second", "100m", priority=CRITICAL))
    await made.start(asking("large", "1", priority=0))
    await made.start(asking("small", "500m", priority=0))
    task = asyncio.create_task(made.resizes.run())
    yield made
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_it_is_granted_when_the_pod_is_gone_that_is_stopped(node: FullNode, pods: Resized) -> None:
    """The smallest that suffices; meanwhile it is neither granted nor deferred."""
    pods.ask("vital", "700m")
    await node.requests.until()
    ((_, asked),) = node.requests.asked
    assert isinstance(asked, EvictPod)
    assert (asked.reason, asked.preempted_for) == ("Preempting", "default/vital")
    assert "default/vital needs 300m cpu more than is left" in asked.why
    node.shows("small", Lifecycle.TERMINATING)
    pods.resizes.retry("periodic_retry")
    assert (pods.cpu("vital"), pods.deferred("vital")) == ("300m", "")
    node.ends("small")
    await pods.changed()
    assert (pods.cpu("vital"), pods.deferred("vital")) == ("700m", "")
    assert (node.asked(), node.counted) == (["small"], ["cpu"])


@pytest.mark.parametrize(
    ("cpu", "priority", "why"),
    [
        pytest.param("700m", CRITICAL - 1, "Deferred OutOfcpu: ", id="an-ordinary-pod"),
        pytest.param(
            "3", CRITICAL, "Deferred UnexpectedAdmissionError: Unexpected error while", id="more-than-all-have"
        ),
    ],
)
async def test_who_waits(node: FullNode, pods: Resized, cpu: str, priority: int, why: str) -> None:
    """Nobody is stopped for it."""
    pods.ask("vital", cpu, priority)
    assert pods.deferred("vital").startswith(why)
    await asyncio.sleep(0)
    assert node.asked() == []


async def test_a_node_that_would_not_run_it(node: FullNode, pods: Resized) -> None:
    """Such as while the machine shuts down."""
    node.would_refuse = Rejected("NodeShutdown", "it shuts down")
    pods.ask("vital", "700m")
    assert pods.deferred("vital") == "Deferred NodeShutdown: it shuts down"


async def test_a_pod_that_is_being_stopped_itself(node: FullNode, pods: Resized) -> None:
    """Nobody is stopped for it."""
    node.shows("vital", Lifecycle.TERMINATING)
    pods.ask("vital", "700m")
    assert pods.deferred("vital").startswith("Deferred OutOfcpu: ")


async def test_who_comes_meanwhile(node: FullNode, pods: Resized) -> None:
    """A pod that fits beside all is admitted; what does not fit is judged beside what is asked for, and again afterwards."""
    pods.ask("vital", "700m")
    await node.requests.until()
    waits = asyncio.create_task(node.admitted(asking("waits", "200m", priority=0)))
    too_large = asyncio.create_task(node.admitted(asking("too-large", "300m", priority=0)))
    assert await node.admitted(asking("fits", "0", priority=0)) == ""
    pods.ask("large", "900m", 0)
    assert pods.deferred("large").startswith("Deferred OutOfcpu: ")
    assert not waits.done()
    node.ends("small")
    assert (await waits, await too_large) == ("", "OutOfcpu")
    assert [pods.cpu(uid) for uid in ("vital", "large")] == ["700m", "900m"]


async def test_two_critical_pods(node: FullNode, pods: Resized) -> None:
    """One after the other; the second has room by then, or stops another pod."""
    pods.ask("vital", "700m")
    pods.ask("second", "300m")
    await node.requests.until()
    node.ends("small")
    while pods.cpu("second") != "300m":
        await pods.changed()
    assert node.asked() == ["small"]
    pods.ask("second", "1100m")
    await node.requests.until(2)
    node.ends("large")
    await pods.changed()
    assert (pods.cpu("vital"), pods.cpu("second"), node.asked()) == ("700m", "1100m", ["small", "large"])


@pytest.mark.parametrize(
    ("cpu", "granted"),
    [
        pytest.param("300m", "300m", id="it-is-taken-back"),
        pytest.param("500m", "500m", id="it-asks-for-less"),
        pytest.param("3", "300m", id="it-asks-for-too-much"),
    ],
)
async def test_a_resize_that_changes_meanwhile(node: FullNode, pods: Resized, cpu: str, granted: str) -> None:
    """What was asked before is not granted; it is judged again when the pods are gone."""
    pods.ask("vital", "700m")
    await node.requests.until()
    pods.ask("vital", cpu)
    node.ends("small")
    assert await node.admitted(asking("after", "2", priority=0)) == "OutOfcpu", "waits for the end of the preemption"
    await asyncio.sleep(0)
    assert (pods.cpu("vital"), node.asked()) == (granted, ["small"])
    assert bool(pods.deferred("vital")) is (cpu == "3")


async def test_a_resize_that_is_taken_back_before_its_turn(node: FullNode, pods: Resized) -> None:
    """Nobody is stopped for it."""
    pods.ask("vital", "700m")
    pods.ask("second", "1100m")
    await node.requests.until()
    pods.ask("second", "100m")
    node.ends("small")
    await pods.changed()
    await asyncio.sleep(0)
    assert (pods.cpu("vital"), pods.cpu("second"), node.asked()) == ("700m", "100m", ["small"])


async def test_a_pod_that_does_not_end_in_time(node: FullNode, pods: Resized, monkeypatch: pytest.MonkeyPatch) -> None:
    """The resize is granted as by the kubelet, and nothing is counted."""
    monkeypatch.setattr(preemptions, "longest_end", lambda _: timedelta())
    pods.ask("vital", "700m")
    await pods.changed()
    assert (pods.cpu("vital"), node.asked(), node.counted) == ("700m", ["small"], [])


async def test_a_failure_of_ours(node: FullNode, pods: Resized, monkeypatch: pytest.MonkeyPatch) -> None:
    """The resize waits on, and is judged again later."""
    monkeypatch.setattr(resizes, "RETRY", 0.1)
    failed = asyncio.Event()

    async def fail(*_: object) -> None:
        failed.set()
        raise RuntimeError("a bug")

    with monkeypatch.context() as broken:
        broken.setattr(node.admission, "preempt_for_resize", fail)
        pods.ask("vital", "700m")
        async with asyncio.timeout(10):
            await failed.wait()
    assert pods.cpu("vital") == "300m"
    await node.requests.until()
    node.ends("small")
    await pods.changed()
    assert pods.cpu("vital") == "700m"
