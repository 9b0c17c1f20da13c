"""Do pods end in groups, in the kubelet's order, and does the machine wait for each group no longer than it may?"""

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from activities.files import mounts
from proto.pod_snapshot import PodSnapshot
from proto.temporal.operator import EvictPod, StopPod
from proto.temporal.pod import Lifecycle
from worker.host.shutdown import ending
from worker.host.shutdown.ending import Node, NotAnswered, end_pods, mounted, pod_of
from workflows.decide.shutdown.periods import Period
from workflows.decide.shutdown.words import MESSAGE, REASON

CRITICAL = 2_000_000_000
TWO_KINDS = (Period(0, 20), Period(CRITICAL, 10))


def snapshot(uid: str, priority: int = 0, **said: object) -> PodSnapshot:
    """Return a running pod's."""
    pod = {"metadata": {"uid": uid, "name": uid}, "spec": {"priority": priority, "terminationGracePeriodSeconds": 30}}
    return replace(PodSnapshot(uid, "n", "d", uid, uid, "file", "", Lifecycle.SYNC.value, "Running", pod=pod), **said)  # type: ignore[arg-type]  # a test's fields


class Pods:
    """Some pods, of which each ends as soon as it is asked, unless it is stubborn."""

    def __init__(self, *pods: PodSnapshot, stubborn: str = "") -> None:
        self.known = {one.uid: one for one in pods}
        self.asked: list[tuple[str, EvictPod | StopPod]] = []
        self.stubborn = stubborn
        self.answer: Callable[[str], str] = lambda _: ""

    async def ask(self, workflow_id: str, asked: EvictPod | StopPod) -> str:
        """Take a request."""
        self.asked.append((workflow_id, asked))
        why = self.answer(workflow_id)
        if workflow_id != self.stubborn and not why:
            self.known[workflow_id] = replace(self.known[workflow_id], lifecycle=Lifecycle.TERMINATED.value)
        return why

    def node(self) -> Node:
        """Return the node that has them."""
        return Node(Path("/nowhere"), lambda: list(self.known.values()), pod_of, self.ask)

    def order(self) -> list[str]:
        """Return who was asked."""
        return [one for one, _ in self.asked]


async def test_low_priorities_end_first() -> None:
    """Each with its grace period, with the kubelet's words; critical pods, too."""
    pods = Pods(snapshot("system", CRITICAL), snapshot("web"))
    await end_pods(pods.node(), TWO_KINDS)
    assert pods.order() == ["web", "system"]
    graces = []
    for _, asked in pods.asked:
        assert isinstance(asked, EvictPod)
        assert (asked.reason, asked.message, asked.shutdown) == (REASON, MESSAGE, True)
        assert asked.grace is not None
        graces.append(asked.grace.total_seconds())
    assert graces == [20, 10]


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(snapshot("a", lifecycle=Lifecycle.TERMINATED.value), id="one-that-is-down"),
        pytest.param(snapshot("a", phase="Succeeded"), id="one-that-has-succeeded"),
        pytest.param(snapshot("a", phase="Failed"), id="one-that-has-failed"),
    ],
)
async def test_what_has_ended_is_left_alone(pod: PodSnapshot) -> None:
    """As the kubelet's active pods have it."""
    pods = Pods(pod)
    await end_pods(pods.node(), TWO_KINDS)
    assert pods.asked == []


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(snapshot("a", lifecycle=Lifecycle.TERMINATING.value), id="one-that-is-being-stopped"),
        pytest.param(snapshot("a", deleting=True), id="one-that-is-deleted"),
        pytest.param(
            snapshot("a", lifecycle=Lifecycle.TERMINATING.value, phase="Failed"), id="one-whose-phase-is-final-already"
        ),
    ],
)
async def test_one_that_terminates_already_gets_no_longer(pod: PodSnapshot) -> None:
    """Its grace period is shortened; it keeps its reason."""
    pods = Pods(pod)
    await end_pods(pods.node(), TWO_KINDS)
    assert [type(one) for _, one in pods.asked] == [StopPod]


async def test_one_that_terminates_meanwhile() -> None:
    """Its eviction is refused, so its stop is shortened."""
    pods = Pods(snapshot("a"))
    pods.answer = lambda _: "Going" if len(pods.asked) == 1 else ""
    await end_pods(pods.node(), TWO_KINDS)
    assert [type(one) for _, one in pods.asked] == [EvictPod, StopPod]


async def test_a_group_has_its_seconds_and_no_more() -> None:
    """A pod that does not end holds up the next group only so long."""
    pods = Pods(snapshot("web"), snapshot("system", CRITICAL), stubborn="web")
    loop = asyncio.get_running_loop()
    begun = loop.time()
    await end_pods(pods.node(), (Period(0, 1), Period(CRITICAL, 10)))
    assert pods.order() == ["web", "system"]
    assert 1 <= loop.time() - begun < 8


async def test_a_group_without_seconds_is_told_all_the_same() -> None:
    """And nobody waits for it."""
    pods = Pods(snapshot("web"), snapshot("system", CRITICAL), stubborn="system")
    await end_pods(pods.node(), (Period(0, 10), Period(CRITICAL, 0)))
    assert pods.order() == ["web", "system"]


async def test_a_group_waits_for_unmounts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver of a volume may be in the next group."""
    pods = Pods(snapshot("web"), snapshot("driver", CRITICAL))
    left, seen = [{"web"}, {"web"}, set[str]()], list[list[str]]()

    def found(_: Path, uids: set[str]) -> set[str]:
        seen.append(pods.order())
        return left.pop(0) if left and "web" in uids else set()

    monkeypatch.setattr(ending, "mounted", found)
    await end_pods(pods.node(), TWO_KINDS)
    assert seen[:3] == [["web"], ["web"], ["web"]]
    assert pods.order() == ["web", "driver"]


async def test_nobody_answers_at_first() -> None:
    """A pod is asked again."""
    pods = Pods(snapshot("web"))

    def answer(_: str) -> str:
        if len(pods.asked) == 1:
            raise NotAnswered("Temporal is away")
        return ""

    pods.answer = answer
    await end_pods(pods.node(), TWO_KINDS)
    assert pods.order() == ["web", "web"]


async def test_a_cancelled_end_leaves_the_next_groups_alone() -> None:
    """Their pods go on."""
    pods = Pods(snapshot("web"), snapshot("system", CRITICAL), stubborn="web")
    task = asyncio.create_task(end_pods(pods.node(), TWO_KINDS))
    async with asyncio.timeout(10):
        while not pods.asked:  # noqa: ASYNC110 - nothing tells of a request
            await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert pods.order() == ["web"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it mounts")
def test_mounts(tmp_path: Path) -> None:
    """Below a pod's folder, at any depth; another pod whose name begins alike is another."""
    folder = tmp_path / "pods" / "a" / "volumes" / "kubernetes.io~secret" / "s"
    for one in (folder, tmp_path / "pods" / "b"):
        one.mkdir(parents=True)
    assert mounted(tmp_path, {"a", "b", "c"}) == set()
    mounts.mount("tmpfs", folder, "tmpfs")
    try:
        assert mounted(tmp_path, {"a", "b", "c"}) == {"a"}
        assert mounted(tmp_path, {"b", "aa"}) == set()
    finally:
        mounts.unmount(folder)


def test_an_unreadable_table_of_mounts_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine goes down all the same."""
    monkeypatch.setattr(mounts, "_TABLE", tmp_path / "none")
    assert mounted(tmp_path, {"a"}) == set()
