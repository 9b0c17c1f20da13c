"""Do the cgroups of the QoS classes get the limits that qosReserved asks for, and lose them again?"""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from activities.machine.cgroup_hierarchies import Hierarchies
from activities.machine.cgroup_names import CgroupNames
from activities.machine.node_cgroups import NodeCgroups
from proto.kubernetes.resources.qos import QosClass
from proto.pod_snapshot import PodSnapshot
from worker.host.cgroups import tier_limits
from worker.host.cgroups.tier_limits import Reservation, TierLimits, tier_memory

MIB = 1 << 20
ALLOCATABLE = 1000 * MIB
TIERS = {QosClass.BURSTABLE: "kubepods/burstable", QosClass.BEST_EFFORT: "kubepods/besteffort"}
LIMIT = {False: "memory.limit_in_bytes", True: "memory.max"}
USAGE = {False: "memory.usage_in_bytes", True: "memory.current"}
NONE = {False: "9223372036854771712\n", True: "max\n"}


def pod(qos: QosClass, mib: int = 0, **more: Any) -> dict[str, Any]:
    """Return a pod of a class with a memory request."""
    amounts = {"memory": f"{mib}Mi", "cpu": "1"}
    resources: Mapping[str, Any] = {
        QosClass.GUARANTEED: {"requests": amounts, "limits": amounts},
        QosClass.BURSTABLE: {"requests": amounts},
        QosClass.BEST_EFFORT: {},
    }[qos]
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "resources": resources}], **more}}


def snapshot(uid: str, made: Mapping[str, Any], lifecycle: str = "sync", phase: str = "Running") -> PodSnapshot:
    """Return a pod's newest snapshot."""
    return PodSnapshot(uid, "n", "ns", uid, uid, "api", "", lifecycle, phase=phase, pod=made)


GUARANTEED = snapshot("g", pod(QosClass.GUARANTEED, 300))
BURSTABLE = snapshot("b", pod(QosClass.BURSTABLE, 200))


class Machine:
    """Cgroups as plain folders."""

    def __init__(self, root: Path, *, v2: bool = True) -> None:
        self.root, self.v2 = root, v2
        for tier in TIERS.values():
            (root / tier).mkdir(parents=True)
            (root / tier / LIMIT[v2]).write_text(NONE[v2])
            (root / tier / USAGE[v2]).write_text(str(64 * MIB))
        self.cgroups = NodeCgroups(
            CgroupNames.below("/"), Hierarchies(v2=root if v2 else None, v1={} if v2 else {"memory": root}), None
        )
        (root / "cgroup.controllers").write_text("memory")

    def limits(self) -> list[str]:
        """Read both."""
        return [(self.root / tier / LIMIT[self.v2]).read_text() for tier in TIERS.values()]

    def keep(self, *pods: PodSnapshot, percent: int | None = 50, allocatable: int = ALLOCATABLE) -> list[str]:
        """Set the limits once, and read them."""

        async def once() -> None:
            TierLimits(self.cgroups, reservation(percent, allocatable), lambda: pods).keep()

        asyncio.run(once())
        return self.limits()


def reservation(percent: int | None, allocatable: int = ALLOCATABLE) -> Reservation | None:
    """Return what is reserved; None for None."""
    return None if percent is None else Reservation(percent, lambda: allocatable)


@pytest.mark.parametrize(
    ("pods", "percent", "burstable", "best_effort"),
    [
        pytest.param([], 100, 1000, 1000, id="without-pods-all-of-it"),
        pytest.param([pod(QosClass.BEST_EFFORT)], 100, 1000, 1000, id="a-best-effort-pod-requests-nothing"),
        pytest.param([pod(QosClass.GUARANTEED, 300)], 100, 700, 700, id="guaranteed-from-both"),
        pytest.param([pod(QosClass.BURSTABLE, 200)], 100, 1000, 800, id="burstable-from-best-effort"),
        pytest.param([pod(QosClass.GUARANTEED, 300), pod(QosClass.BURSTABLE, 200)], 50, 850, 750, id="a-half"),
        pytest.param([pod(QosClass.GUARANTEED, 300), pod(QosClass.BURSTABLE, 200)], 0, 1000, 1000, id="nothing"),
        pytest.param([pod(QosClass.GUARANTEED, 900), pod(QosClass.BURSTABLE, 200)], 100, 100, -100, id="too-much"),
        pytest.param([pod(QosClass.BURSTABLE, 200, overhead={"memory": "50Mi"})], 100, 1000, 750, id="and-overhead"),
    ],
)
def test_what_the_classes_may_use(pods: list[dict[str, Any]], percent: int, burstable: int, best_effort: int) -> None:
    """MiB of 1000."""
    wanted = {QosClass.BURSTABLE: burstable * MIB, QosClass.BEST_EFFORT: best_effort * MIB}
    assert tier_memory(pods, ALLOCATABLE, percent) == wanted


@pytest.mark.parametrize("v2", [False, True], ids=["v1", "v2"])
def test_both_are_limited(tmp_path: Path, *, v2: bool) -> None:
    """By the pods that are active."""
    over = snapshot("o", pod(QosClass.GUARANTEED, 500), phase="Succeeded")
    found = Machine(tmp_path, v2=v2).keep(GUARANTEED, BURSTABLE, over)
    assert found == [str(850 * MIB), str(750 * MIB)]


def test_more_than_is_left_lets_nothing_grow(tmp_path: Path) -> None:
    """What is used is the limit, where that is more."""
    found = Machine(tmp_path).keep(GUARANTEED, snapshot("b", pod(QosClass.BURSTABLE, 800)), percent=100)
    assert found == [str(700 * MIB), str(64 * MIB)]


def test_a_limit_that_the_kernel_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As v1 does for what is used and cannot be freed."""
    machine = Machine(tmp_path, v2=False)
    limit, tried = machine.cgroups.limit, list[int | None]()

    def refuse_below_usage(cgroup: str, limits: Any) -> bool:
        tried.append(limits.memory)
        if limits.memory < 900 * MIB:
            raise OSError(16, "busy")
        return limit(cgroup, limits)

    monkeypatch.setattr(machine.cgroups, "limit", refuse_below_usage)
    (tmp_path / TIERS[QosClass.BEST_EFFORT] / USAGE[False]).write_text(str(950 * MIB))
    assert machine.keep(BURSTABLE, percent=100) == [str(1000 * MIB), str(950 * MIB)]
    assert tried == [1000 * MIB, 800 * MIB, 1000 * MIB, 950 * MIB]


def test_nothing_allocatable(tmp_path: Path) -> None:
    """Sets nothing, as in the kubelet."""
    assert Machine(tmp_path).keep(GUARANTEED, allocatable=0) == [NONE[True]] * 2


@pytest.mark.parametrize("v2", [False, True], ids=["v1", "v2"])
def test_limits_of_an_earlier_configuration_go(tmp_path: Path, *, v2: bool) -> None:
    """At the start without the key."""
    machine = Machine(tmp_path, v2=v2)
    machine.keep(GUARANTEED)
    assert machine.keep(GUARANTEED, percent=None) == [NONE[v2].strip() if v2 else "-1"] * 2


async def test_a_pod_that_comes_or_goes_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first snapshot and its last set the limits again, those between do not."""
    pods: dict[str, PodSnapshot] = {}
    machine = Machine(tmp_path)
    limits = TierLimits(machine.cgroups, reservation(100), lambda: list(pods.values()))
    publish = limits.after(lambda one: pods.update({one.uid: one}))
    kept, keep = asyncio.Queue[list[str]](), limits.keep
    loop = asyncio.get_running_loop()

    def keep_and_tell() -> None:
        keep()
        loop.call_soon_threadsafe(kept.put_nowait, machine.limits())

    monkeypatch.setattr(limits, "keep", keep_and_tell)
    async with limits.keeping(timedelta(hours=1)):
        assert await kept.get() == [str(1000 * MIB)] * 2
        publish(BURSTABLE)
        assert await kept.get() == [str(1000 * MIB), str(800 * MIB)]
        publish(BURSTABLE)
        publish(snapshot("b", BURSTABLE.pod, lifecycle="terminated"))
        assert await kept.get() == [str(1000 * MIB)] * 2
        assert kept.empty()


def test_the_kubelets_period() -> None:
    """Set again each minute."""
    assert timedelta(minutes=1) == tier_limits.EVERY
