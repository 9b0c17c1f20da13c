"""Does the runtime know the CPUs of each container after each change, and are those of pods that are over free?"""

from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import cast

import grpc
import pytest

from activities.clients.cri_error import CriError
from activities.clients.runtime import RuntimeClient
from proto.cri.v1 import api_pb2 as cri
from proto.pod_snapshot import ContainerSnapshot, PodSnapshot
from proto.temporal.hardware.ledger import AllocateHardware
from proto.temporal.pod import ContainerState, Lifecycle
from tests.worker.hardware.test_exclusive_cpus import loaded, pod, root_dir, settings
from tests.worker.poller.snapshots import snapshot
from worker.hardware.cpu_sets_in_force import EXPECTED_FOR, GONE_FOR, CpuSetsInForce
from worker.hardware.node_hardware import NodeHardware
from worker.settings.hardware.cpu_manager import CpuManager

__all__ = ["root_dir", "settings"]  # fixtures


@dataclass
class Runtime:
    """Remembers what it is told; some containers are gone, others fail."""

    told: list[tuple[str, str]] = field(default_factory=list)
    fails: dict[str, grpc.StatusCode] = field(default_factory=dict)

    async def update_container_resources(self, container_id: str, resources: cri.LinuxContainerResources) -> None:
        """Take new CPUs, and nothing else."""
        assert resources == cri.LinuxContainerResources(cpuset_cpus=resources.cpuset_cpus)
        if code := self.fails.get(container_id):
            raise CriError("UpdateContainerResources", code, "failed")
        self.told.append((container_id, resources.cpuset_cpus))


class Node:
    """A node of four CPUs, of which one is reserved."""

    def __init__(self, settings: CpuManager, root_dir: Path) -> None:
        self.runtime, self.pods = Runtime(), dict[str, PodSnapshot]()
        self.now = 0.0
        self.hardware = NodeHardware([loaded(settings, root_dir)])
        self.kept = CpuSetsInForce(
            self.hardware,
            cast("RuntimeClient", self.runtime),
            self.pods.values,
            timedelta(seconds=10),
            clock=lambda: self.now,
        )

    def runs(self, uid: str, state: str = ContainerState.RUNNING) -> None:
        """Let a pod with one container run."""
        containers = {"c0": ContainerSnapshot(f"id-{uid}", state)}
        self.pods[uid] = replace(snapshot(uid), phase="Running", lifecycle=Lifecycle.SYNC, containers=containers)

    async def told(self) -> list[tuple[str, str]]:
        """Reconcile; returns what the runtime was told."""
        self.runtime.told.clear()
        await self.kept.reconcile()
        return list(self.runtime.told)

    async def admit(self, uid: str, cpus: int) -> None:
        """Give a pod CPUs of its own."""
        await self.hardware.allocate(AllocateHardware(pod(uid, cpus), counting=tuple(self.pods)))


@pytest.fixture
def node(settings: CpuManager, root_dir: Path) -> Node:
    """Return one."""
    return Node(settings, root_dir)


async def test_only_what_has_changed_is_told(node: Node) -> None:
    """Each container once after the start, then those whose CPUs have changed."""
    node.runs("a")
    assert await node.told() == [("id-a", "0-3")]
    assert await node.told() == []
    await node.admit("b", 2)
    assert await node.told() == [("id-a", "0,3")]
    node.runs("b")
    assert await node.told() == [("id-b", "1-2")]
    node.pods["b"] = replace(node.pods["b"], phase="Succeeded")
    assert await node.told() == [("id-a", "0-3"), ("id-b", "0-3")]


async def test_a_pod_that_has_not_come_yet_keeps_its_cpus(node: Node) -> None:
    """Also one that comes again under its uid before anybody saw that it was gone."""
    await node.admit("a", 2)
    await node.told()
    assert node.hardware.holders() == {"a"}
    node.runs("a")
    await node.told()
    del node.pods["a"]
    await node.admit("a", 2)
    await node.told()
    assert node.hardware.holders() == {"a"}
    node.runs("a")
    await node.told()
    node.pods["a"] = replace(node.pods["a"], phase="Succeeded", deleting=True)
    await node.told()
    del node.pods["a"]
    await node.told()
    assert node.hardware.holders() == {"a"}, "its source may list it again while it stops"
    node.now += GONE_FOR.total_seconds()
    await node.told()
    assert node.hardware.holders() == set()


async def test_a_pod_that_comes_and_goes_between_two_looks_has_nothing(node: Node) -> None:
    """Its container has started, so it was on the node."""
    await node.admit("a", 2)
    await node.told()
    await node.hardware.starting("a", {"name": "c0"})
    await node.told()
    assert node.hardware.holders() == {"a"}
    node.now += GONE_FOR.total_seconds()
    await node.told()
    assert node.hardware.holders() == set()


async def test_an_expected_pod_that_never_comes_has_nothing_after_a_while(node: Node) -> None:
    """It was deleted before its life began, or between two looks."""
    await node.admit("a", 2)
    await node.told()
    node.now += EXPECTED_FOR.total_seconds() - 1
    await node.told()
    assert node.hardware.holders() == {"a"}
    node.now += 1
    await node.told()
    assert node.hardware.holders() == set()


async def test_a_pod_that_was_rejected_after_all_has_none(node: Node) -> None:
    """Another check was against it."""
    await node.admit("a", 2)
    node.runs("a", "")
    node.pods["a"] = replace(node.pods["a"], phase="Failed")
    await node.told()
    assert node.hardware.holders() == set()


@pytest.mark.parametrize("code", [grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNAVAILABLE])
async def test_a_container_that_cannot_be_told_is_told_later(node: Node, code: grpc.StatusCode) -> None:
    """The others are told at once."""
    node.runs("a")
    node.runs("b")
    node.runs("ended", ContainerState.EXITED)
    node.runtime.fails["id-a"] = code
    assert await node.told() == [("id-b", "0-3")]
    node.runtime.fails.clear()
    assert await node.told() == [("id-a", "0-3")]
