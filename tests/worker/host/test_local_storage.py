"""Does the loop measure only what has a limit, signal once, and survive a hanging disk?"""

import asyncio
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import structlog
from temporalio.service import RPCError, RPCStatusCode

from activities.clients.runtime import RuntimeClient
from activities.files.disk_use import used_bytes
from activities.images.image_pulls import ImagePulls
from activities.machine.cgroup_hierarchies import Hierarchies
from activities.machine.cgroups import Cgroups
from activities.node_services import NodeServices
from activities.settings.activity_settings import ActivitySettings
from proto.kubernetes.resources.storage_limits import StorageLimits
from proto.pod_snapshot import PodSnapshot
from proto.temporal.signals import StorageExceeded
from worker.host.local_storage import HUNG_AFTER, StorageWatch

MIB = 1024 * 1024


class OneNode:
    """Pods with an emptyDir `data` each, and the loop that counts."""

    def __init__(self, directory: Path) -> None:
        self.settings = ActivitySettings(root_dir=directory / "kubelet", pod_logs_dir=directory / "logs")
        self.pods: list[PodSnapshot] = []
        self.hints: list[tuple[str, StorageExceeded]] = []
        self.counts: list[StorageExceeded] = []
        self.refuses: Exception | None = None
        hierarchies = Hierarchies(v2=None, v1={})
        services = NodeServices(
            settings=self.settings,
            runtime=RuntimeClient.__new__(RuntimeClient),  # nothing is asked of it
            cgroups=Cgroups(hierarchies=hierarchies),
            pulls=ImagePulls(),
        )
        self.watch = StorageWatch(services, lambda: self.pods, self.hint, self.counts.append)

    async def hint(self, workflow_id: str, signal: StorageExceeded) -> None:
        """Keep what is told."""
        if self.refuses:
            raise self.refuses
        self.hints.append((workflow_id, signal))

    def pod(self, name: str, written: int, limits: StorageLimits | None) -> Path:
        """Add a pod that has written so many bytes."""
        folder = self.settings.root_dir / "pods" / f"u-{name}" / "volumes/kubernetes.io~empty-dir/data"
        folder.mkdir(parents=True)
        (folder / "file").write_bytes(b"x" * written)
        known: dict[str, Any] = {"workflow_id": name, "node": "n", "source": "file", "path": "", "lifecycle": "sync"}
        self.pods.append(PodSnapshot(namespace="default", name=name, uid=f"u-{name}", storage_limits=limits, **known))
        return folder

    async def look(self) -> None:
        """Look once, and wait for what is counted."""
        await asyncio.gather(*self.watch.look())


@pytest.fixture
def one_node(tmp_path: Path) -> OneNode:
    """Return a node."""
    return OneNode(tmp_path)


def limit(amount: str) -> StorageLimits:
    """Limit the volume."""
    return StorageLimits({"data": amount})


async def test_only_what_exceeds_its_limit_is_hinted_at(one_node: OneNode) -> None:
    """Once, however often is looked."""
    one_node.pod("full", 2 * MIB, limit("1Mi"))
    one_node.pod("below", MIB // 2, limit("1Mi"))
    one_node.pod("free", 2 * MIB, None)
    for _ in range(3):
        await one_node.look()
    [(told, signal)] = one_node.hints
    assert (told, signal.empty_dir) == ("full", "data")
    assert 2 * MIB <= signal.used_bytes < 3 * MIB


async def test_a_snapshot_keeps_the_limits(one_node: OneNode) -> None:
    """So a restarted worker continues; a snapshot of an older release has none."""
    one_node.pod("full", 0, limit("1Mi"))
    [snapshot] = one_node.pods
    assert PodSnapshot.from_json(snapshot.to_json()).storage_limits == limit("1Mi")
    told = json.loads(snapshot.to_json())
    del told["storage_limits"]
    assert PodSnapshot.from_json(json.dumps(told).encode()).storage_limits is None


async def test_a_pod_that_is_not_ended_is_hinted_at_again(one_node: OneNode) -> None:
    """The first hint may be lost."""
    one_node.pod("full", 2 * MIB, limit("1Mi"))
    await one_node.look()
    assert 50 < one_node.watch._not_before["u-full"] - time.monotonic() <= 60
    one_node.watch._not_before["u-full"] = time.monotonic()
    await one_node.look()
    assert len(one_node.hints) == 2
    assert len(one_node.counts) == 1, "each pod is counted once"
    one_node.pods.clear()
    one_node.watch.look()
    assert not one_node.watch._counted, "and forgotten when it is gone"


async def test_a_pod_whose_lead_has_changed_is_hinted_at_again(one_node: OneNode) -> None:
    """At the next look, also if it was told just then; others wait."""
    one_node.pod("full", 2 * MIB, limit("1Mi"))
    one_node.pod("other", 2 * MIB, limit("1Mi"))
    await one_node.look()
    one_node.watch.tell_anew(["full"])
    await one_node.look()
    assert [told for told, _ in one_node.hints].count("full") == 2
    assert len(one_node.hints) == 3
    one_node.watch.tell_anew(["full"])
    looking = one_node.watch.look()
    await asyncio.sleep(0)  # it has begun
    one_node.watch.tell_anew(["full"])
    await asyncio.gather(*looking)
    await one_node.look()
    assert [told for told, _ in one_node.hints].count("full") == 4


async def test_a_hint_that_does_not_arrive_is_told_once_and_comes_with_the_next_look(one_node: OneNode) -> None:
    """Temporal is down for a while."""
    one_node.pod("full", 2 * MIB, limit("1Mi"))
    one_node.refuses = RPCError("away", RPCStatusCode.UNAVAILABLE, b"")
    with structlog.testing.capture_logs() as logs:
        await one_node.look()
        await one_node.look()
    assert [one["log_level"] for one in logs].count("warning") == 1
    one_node.refuses = None
    await one_node.look()
    assert len(one_node.hints) == 1


async def test_a_disk_that_hangs_holds_up_its_own_pod_only(one_node: OneNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked once, in a thread, and the others get their turn."""
    goes_on, asked = threading.Event(), []

    def hanging(folder: Path, is_enough: Callable[[int], bool], seconds: float) -> int:
        asked.append(folder)
        if "u-hung" in str(folder):
            goes_on.wait()
        return used_bytes(folder, is_enough, seconds)

    monkeypatch.setattr("worker.host.local_storage.used_bytes", hanging)
    monkeypatch.setattr("worker.host.local_storage.HUNG_AFTER", HUNG_AFTER / 1000)
    one_node.watch._turns = asyncio.Semaphore(1)
    hung = one_node.pod("hung", 2 * MIB, limit("1Mi"))
    one_node.pod("full", 2 * MIB, limit("1Mi"))
    counting = one_node.watch.look()
    await asyncio.wait(counting, return_when=asyncio.FIRST_COMPLETED)
    one_node.watch.look()
    assert [told for told, _ in one_node.hints] == ["full"]
    goes_on.set()
    await asyncio.gather(*counting)
    assert asked.count(hung) == 1
    assert [told for told, _ in one_node.hints] == ["full", "hung"]


async def test_a_volume_that_was_replaced_by_a_link_counts_for_nothing(one_node: OneNode, tmp_path: Path) -> None:
    """The link's target belongs to somebody else."""
    folder = one_node.pod("linked", 0, limit("1Mi"))
    (tmp_path / "large").write_bytes(b"x" * 2 * MIB)
    (folder / "file").unlink()
    folder.rmdir()
    folder.symlink_to(tmp_path)
    await one_node.look()
    assert one_node.hints == []
