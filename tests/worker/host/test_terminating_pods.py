"""Do activities learn which pods are terminating, also after a restart of the worker?"""

from dataclasses import replace
from pathlib import Path

import pytest

from activities.objects.terminating_pods import TerminatingPods
from proto.pod_snapshot import PodSnapshot, snapshot_path
from proto.temporal.pod import Lifecycle
from worker.host.pod_cache import PodCache
from worker.host.terminating_pods import TerminationTracker

SNAPSHOT = PodSnapshot("pod/n/default/web/u", "n", "default", "web", "u", "file", "web.yaml", Lifecycle.SYNC.value)


class Recorded(TerminatingPods):
    """Records each call."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[str, bool]] = []

    def set(self, uid: str, *, terminating: bool) -> None:
        """Record the call."""
        self.told.append((uid, terminating))


@pytest.mark.parametrize(
    ("lifecycle", "going"),
    [
        pytest.param(Lifecycle.SYNC, False, id="a-pod-that-stays"),
        pytest.param(Lifecycle.TERMINATING, True, id="one-that-goes"),
        pytest.param(Lifecycle.TERMINATED, False, id="one-that-has-gone"),
    ],
)
def test_a_snapshot_tells(tmp_path: Path, lifecycle: Lifecycle, going: bool) -> None:
    """And passes the snapshot on to the cache."""
    told = Recorded()
    with PodCache(tmp_path) as cache:
        TerminationTracker(told, cache, cache).publish(replace(SNAPSHOT, lifecycle=lifecycle.value))
        assert told.told == [("u", going)]
        assert [one.lifecycle for one in cache.snapshots()] == [lifecycle.value]


def test_what_an_earlier_worker_knew(tmp_path: Path) -> None:
    """A replay publishes nothing, so the cache is read."""
    path = snapshot_path(tmp_path, "u")
    path.parent.mkdir(parents=True)
    path.write_bytes(replace(SNAPSHOT, lifecycle=Lifecycle.TERMINATING.value).to_json())
    told = Recorded()
    with PodCache(tmp_path) as cache:
        TerminationTracker(told, cache, cache)
    assert told.told == [("u", True)]
