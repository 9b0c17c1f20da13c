"""When is a resize judged, in which order, and what are the pods' workflows told?"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from proto.temporal.pod import Lifecycle, PodJson
from tests.worker.poller.resizes.listed_pods import ListedPods, cpu_of, pod
from worker.poller.resizes import resizes
from worker.poller.resizes.allocated_pods import AllocatedPods
from workflows.decide.resources.resizes import SWAP, ResizeSettings


@pytest.fixture
def pods(tmp_path: Path) -> ListedPods:
    """Return the pods of a node of two cpus."""
    return ListedPods(tmp_path)


@asynccontextmanager
async def running(pods: ListedPods) -> AsyncIterator[None]:
    """Let time pass."""
    task = asyncio.create_task(pods.resizes.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_what_fits_is_granted_at_once(pods: ListedPods) -> None:
    """The workflow is told only the result."""
    pods.start(pod("a", "1"), pod("b", "500m"))
    listed = pods.edit(pod("a", "1500m", 2))
    assert (cpu_of(listed.pod), listed.pending) == ("1500m", None)
    assert pods.told == ["a"]


async def test_what_does_not_fit_waits_with_what_it_has(pods: ListedPods) -> None:
    """Beside the others, or beyond the node; the pod's other changes reach it."""
    pods.start(pod("a", "1"), pod("b", "500m"))
    listed = pods.edit({**pod("a", "1600m", 2), "kind": "Pod"})
    assert (cpu_of(listed.pod), listed.pod["kind"]) == ("1", "Pod")
    assert listed.pod["metadata"]["generation"] == 2
    assert pods.pending("a") == "Deferred OutOfcpu: 1600 beside 500"
    assert listed.pending is not None
    assert (listed.pending.generation, listed.pending.asked["c"]) == (2, {"requests": {"cpu": "1600m"}})
    pods.edit(pod("a", "9", 3))
    assert pods.pending("a") == "Deferred OutOfcpu: 9000 beside 500"


async def test_a_resize_that_is_taken_back_waits_no_more(pods: ListedPods) -> None:
    """Nothing was granted meanwhile."""
    pods.start(pod("a", "1"))
    pods.edit(pod("a", "9", 2))
    pods.edit(pod("a", "1000m", 3))
    assert pods.pending("a") == ""
    pods.remove("a")
    assert pods.told == ["a"]


async def test_a_pod_that_goes_makes_room_for_the_first_that_waits(pods: ListedPods) -> None:
    """By priority; the other waits on, beside what was granted."""
    pods.start(pod("a", "500m"), pod("b", "500m"), pod("c", "1"))
    pods.edit(pod("a", "1", 2))
    pods.edit(pod("b", "1300m", 2, priority=7))
    pods.remove("c")
    assert (pods.cpu("b"), pods.pending("b")) == ("1300m", "")
    assert (pods.cpu("a"), pods.pending("a")) == ("500m", "Deferred OutOfcpu: 1000 beside 1300")


async def test_a_resize_that_is_judged_judges_the_others_again(pods: ListedPods) -> None:
    """A pod shrinks, and one that waited is granted its room once it is free."""
    pods.start(pod("a", "1"), pod("b", "1"))
    pods.edit(pod("a", "1500m", 2))
    pods.show("b", status={"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]})
    pods.edit(pod("b", "500m", 2))
    assert pods.cpu("b") == "500m"
    assert pods.pending("a") == "Deferred OutOfcpu: 1500 beside 1000"
    async with running(pods):
        pods.show("b", status={"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "500m"}}}]})
        await pods.until(lambda: pods.cpu("a") == "1500m")


async def test_a_pod_that_ends_makes_room(pods: ListedPods) -> None:
    """Though it is still listed."""
    pods.start(pod("a", "1"), pod("b", "1"))
    pods.edit(pod("a", "2", 2))
    async with running(pods):
        await asyncio.sleep(0)
        pods.show("b", phase="Succeeded", lifecycle=Lifecycle.TERMINATED)
        await pods.until(lambda: pods.cpu("a") == "2")


async def test_what_is_infeasible_is_not_judged_again(tmp_path: Path) -> None:
    """Until its source asks for something else."""
    pods = ListedPods(tmp_path, ResizeSettings(pod_level=False))
    pods.start(pod("a", "1"), pod("b", "1"))
    pods.edit(pod("a", "1", 2, resources={"requests": {"cpu": "2"}}))
    assert pods.pending("a").startswith("Infeasible Infeasible: InPlacePodLevelResources")
    pods.edit(pod("b", "1500m", 2))
    pods.remove("b")
    assert pods.told == ["a", "b"]
    assert SWAP not in pods.pending("a")


async def test_nothing_is_granted_before_every_pod_is_known(pods: ListedPods, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then once the ticker comes, 30 seconds after the last try, whoever has listed meanwhile."""
    monkeypatch.setattr(resizes, "LOOK", 0.01)
    monkeypatch.setattr(resizes, "FIRST_RETRY", 0.3)
    clock = asyncio.get_running_loop().time
    pods.start(pod("a", "1"))
    pods.ready, tried = False, clock()
    pods.edit(pod("a", "2", 2))
    assert (pods.cpu("a"), pods.pending("a"), pods.told) == ("1", "", [])
    pods.ready = True
    async with running(pods):
        await pods.until(lambda: pods.cpu("a") == "2")
    assert clock() - tried >= 0.3


async def test_what_waits_is_judged_again_after_some_time(pods: ListedPods, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three minutes after the last try, whatever that was for: the node itself may have grown."""
    monkeypatch.setattr(resizes, "LOOK", 0.01)
    monkeypatch.setattr(resizes, "RETRY", 0.3)
    clock = asyncio.get_running_loop().time
    pods.start(pod("a", "1"), pod("b", "500m"))
    tried = clock()
    pods.edit(pod("a", "9", 2))
    pods.capacity = 9500
    async with running(pods):
        await pods.until(lambda: pods.cpu("a") == "9")
    assert clock() - tried >= 0.3


async def test_what_a_pod_was_admitted_with_is_put_on_disk(
    pods: ListedPods, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Soon, whatever comes meanwhile."""
    monkeypatch.setattr(resizes, "LOOK", 0.01)
    async with running(pods), asyncio.timeout(20):
        for uid in "abc":
            pods.start(pod(uid, "100m"))
            while AllocatedPods(tmp_path).of(uid) is None:  # noqa: ASYNC110 - another thread writes it
                await asyncio.sleep(0.005)


async def test_a_machine_that_goes_down_grants_nothing(pods: ListedPods) -> None:
    """The last that is asked."""
    pods.start(pod("a", "1"))
    pods.going_down = True
    pods.edit(pod("a", "2", 2))
    assert pods.pending("a").startswith("Deferred NodeShutdown: ")


async def test_another_poller_goes_on_where_the_last_one_was(tmp_path: Path) -> None:
    """What was granted is on disk; since when a resize waits is in the pod's status."""
    before = ListedPods(tmp_path)
    before.start(pod("a", "500m"), pod("b", "500m"), pod("c", "900m"))
    before.edit(pod("c", "1", 2))
    assert before.told == ["c"]
    pods = ListedPods(tmp_path)
    waits = {"type": "PodResizePending", "reason": "Deferred", "message": "no", "observedGeneration": 2}
    for uid, since in (("a", "2026-11-28T12:00:01Z"), ("b", "2026-11-28T12:00:00Z")):
        condition = {**waits, "lastTransitionTime": since}
        pods.show(uid, resize_cause="OutOfcpu", status={"conditions": [condition]})
    pods.ready = False
    for uid in "abc":
        pods.edit(pod(uid, "1", 2))
    assert [pods.cpu(uid) for uid in "abc"] == ["500m", "500m", "1"]
    assert [pods.pending(uid) for uid in "abc"] == ["Deferred OutOfcpu: no", "Deferred OutOfcpu: no", ""]
    assert pods.told == []
    pods.ready = True
    pods.remove("c")
    assert (pods.cpu("b"), pods.cpu("a")) == ("1", "1")
    assert pods.told == ["b", "a"]


async def test_a_pod_that_is_edited_while_it_is_admitted_has_what_it_was_admitted_with(pods: ListedPods) -> None:
    """The rest is a resize."""
    first = pod("a", "1")
    pods.edit(first)
    assert cpu_of(pods.edit(pod("a", "9", 2)).pod) == "9", "nothing was granted yet"
    pods.resizes.admitted(first)
    assert (pods.cpu("a"), pods.pending("a")) == ("1", "Deferred OutOfcpu: 9000 beside 0")


def edited(**container: object) -> PodJson:
    """Return a pod whose container was edited."""
    found = pod("a", "1", 2)
    found["spec"]["containers"] = [{**found["spec"]["containers"][0], **container}]
    return found


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(edited(name="other", resources={"requests": {"cpu": "9"}}), id="another-container"),
        pytest.param(edited(resources={"requests": {"cpu": "9", "ephemeral-storage": "1Gi"}}), id="more-than-cpu"),
        pytest.param(edited(resources={}), id="a-request-is-removed"),
    ],
)
async def test_an_edit_of_a_manifest_that_is_no_resize_replaces_the_pod(pods: ListedPods, other: PodJson) -> None:
    """With all that it asks for."""
    pods.edit(pod("a", "1"), static=True)
    pods.resizes.admitted(pod("a", "1"))
    listed = pods.edit(other, static=True)
    assert (listed.pod, listed.pending) == (other, None)


async def test_what_is_counted(pods: ListedPods) -> None:
    """Each request once, however often it is listed; a grant only if it was deferred, by what brought it."""
    asked = {"resource": "cpu", "requirement": "requests", "operation": "increase"}
    pods.start(pod("a", "1"), pod("b", "1"))
    for generation in (2, 3):
        pods.edit(pod("a", "1500m", generation))
    assert pods.count("kubelet_container_requested_resizes_total", **asked) == 1
    pods.remove("b")
    assert pods.count("kubelet_pod_deferred_accepted_resizes_total", retry_trigger="pods_removed") == 1
    pods.edit(pod("a", "1600m", 4))
    assert pods.count("kubelet_container_requested_resizes_total", **asked) == 2
    assert pods.count("kubelet_pod_deferred_accepted_resizes_total", retry_trigger="pod_updated") == 0


async def test_what_can_never_be_granted_is_counted(tmp_path: Path) -> None:
    """By the kubelet's name of the reason."""
    pods = ListedPods(tmp_path, ResizeSettings(pod_level=False))
    pods.start(pod("a", "1", resources={"requests": {"cpu": "1"}}))
    pods.edit(pod("a", "1", 2, resources={"requests": {"cpu": "2"}}))
    assert pods.count("kubelet_pod_infeasible_resizes_total", reason_detail="plr_feature_gate_off") == 1
