"""Is a pod of the API rejected whose devices a boot has taken, and no other?"""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from proto.pod_snapshot import PodSnapshot
from proto.temporal.names import API_SOURCE
from proto.temporal.operator import EvictPod, Rejection
from tests.worker.devices.lying_plugin import Faults, devices, serving
from tests.worker.devices.test_device_manager import GPU
from worker.delivery.lead import LeadUnavailable
from worker.devices import after_boot
from worker.devices.after_boot import DevicesAfterBoot
from worker.devices.of_this_node import NodeDevices
from worker.machine.boots import Boots
from workflows.decide.devices.assignments import Assigned, Assignments

GONE = f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {GPU}"
NONE = f"no healthy devices present; cannot allocate unhealthy devices {GPU}"
NEVER = f"cannot allocate unregistered device {GPU}"


class Requests:
    """Records who is evicted; the first request is not answered, unless the test says so."""

    def __init__(self, rejection: Rejection | None = None, *, answers: bool = False) -> None:
        self.asked: list[tuple[str, EvictPod]] = []
        self._rejection, self._answers = rejection, answers

    async def ask(self, workflow_id: str, asked: EvictPod) -> Rejection | None:
        """Record it."""
        self.asked.append((workflow_id, asked))
        if len(self.asked) == 1 and not self._answers:
            raise LeadUnavailable("nobody answers")
        return self._rejection


def made(root: Path) -> NodeDevices:
    """Make a node whose pod `uid` has `d0` and `d1` of before."""
    found = NodeDevices(root)
    assigned = Assigned({-1: ("d0", "d1")}, b"")
    found.manager.restore(Assignments({"uid": {"app": {GPU: assigned}}}))
    return found


def booted(root: Path, kept: str = "before") -> Boots:
    """Return the boot `now`, after another one."""
    (root / "source").write_text("now\n")
    if kept:
        (root / "kept").write_text(f"{kept}\n")
    return Boots(root / "kept", root / "source")


def judged(
    nodes: NodeDevices, boots: Boots, requests: Any, source: str = API_SOURCE, *, seconds: float = 0.0
) -> DevicesAfterBoot:
    """Return what judges the pod, and waits so long for its plugin."""
    pod = PodSnapshot("pod/n/default/one/uid", "n", "default", "one", "uid", source, "", "SYNC")
    return DevicesAfterBoot(nodes, boots, requests, lambda: [pod], grace=timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("listed", "why"),
    [
        pytest.param(devices("d0", "d1", "d2"), "", id="all are there"),
        pytest.param(devices("d0"), GONE, id="one is gone"),
        pytest.param([*devices("d0"), *devices("d1", health="Unhealthy")], GONE, id="one is ill"),
        pytest.param([], NONE, id="the plugin has none"),
        pytest.param(None, NONE, id="the plugin does not come back in time"),
    ],
)
async def test_a_pod_is_judged_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: Any, why: str) -> None:
    """With the kubelet's words; once it is judged, the boot is kept."""
    monkeypatch.setattr(after_boot, "AGAIN", 0.01)
    nodes, boots, requests = made(tmp_path), booted(tmp_path), Requests()
    judge = judged(nodes, boots, requests, seconds=0.2 if listed is None else 60)
    nodes.plugins._changed = nodes.listed_anew
    nodes.plugins.known_before([GPU])
    judging = asyncio.create_task(judge.run())
    async with serving(tmp_path / "gpu.sock", Faults(lists=[listed or []])):
        if listed is not None:
            await nodes.plugins.register(GPU, str(tmp_path / "gpu.sock"), ["v1beta1"])
        async with asyncio.timeout(20):
            await judging
        await nodes.plugins.close()
    if not why:
        assert not requests.asked
    else:
        (first, second) = requests.asked
        assert first == second  # the first was not answered
        workflow_id, asked = second
        assert (workflow_id, asked.operator, asked.reason) == ("pod/n/default/one/uid", "", "UnexpectedAdmissionError")
        assert asked.message == f"Pod was rejected: Allocate failed due to {why}, which is unexpected"
        assert not asked.disrupts
    assert boots.before == "now"


@pytest.mark.parametrize(
    ("kept", "source"),
    [
        pytest.param("now", API_SOURCE, id="the same boot"),
        pytest.param("", API_SOURCE, id="the first start"),
        pytest.param("before", "file", id="a pod of a manifest"),
    ],
)
async def test_a_pod_is_left_alone(tmp_path: Path, kept: str, source: str) -> None:
    """Its containers say what they lack."""
    nodes, boots, requests = made(tmp_path), booted(tmp_path, kept), Requests()
    async with asyncio.timeout(20):
        await judged(nodes, boots, requests, source).run()
    assert not requests.asked
    assert boots.before == "now"


async def test_a_resource_that_nothing_tells_of(tmp_path: Path) -> None:
    """No file and no plugin: it is waited for, too, and no longer."""
    nodes, boots, requests = made(tmp_path), booted(tmp_path), Requests(answers=True)
    async with asyncio.timeout(20):
        await judged(nodes, boots, requests, seconds=0.05).run()
    ((_, asked),) = requests.asked
    assert asked.message == f"Pod was rejected: Allocate failed due to {NEVER}, which is unexpected"
    assert boots.before == "now"


async def test_a_pod_that_has_finished_is_no_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It rejects to be evicted, and is not asked again."""
    monkeypatch.setattr(after_boot, "AGAIN", 0.01)
    nodes, boots, requests = made(tmp_path), booted(tmp_path), Requests(Rejection("Finished", "nothing is left"))
    async with asyncio.timeout(20):
        await judged(nodes, boots, requests).run()
    assert len(requests.asked) == 2


async def test_a_worker_that_ends_before_judges_anew(tmp_path: Path) -> None:
    """The boot is kept only once all is judged."""
    nodes, boots, requests = made(tmp_path), booted(tmp_path), Requests()
    nodes.plugins.known_before([GPU])
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await judged(nodes, boots, requests, seconds=60).run()
    await nodes.plugins.close()
    assert Boots(boots.file, boots.source).is_new
