"""Does the pod cache keep what readers need, and drop pods that are gone?"""

from dataclasses import replace
from pathlib import Path

import pytest

from proto.pod_snapshot import read_snapshots
from proto.temporal.pod import Lifecycle
from tests.worker.poller.snapshots import snapshot
from worker.host.pod_cache import PodCache


@pytest.mark.parametrize(
    ("lifecycle", "deleting", "kept"),
    [
        pytest.param(Lifecycle.SYNC, False, True, id="it-lives"),
        pytest.param(Lifecycle.TERMINATING, True, True, id="it-is-being-stopped"),
        pytest.param(Lifecycle.TERMINATED, False, True, id="it-has-finished-and-stays"),
        pytest.param(Lifecycle.TERMINATED, True, False, id="it-is-deleted-and-down"),
    ],
)
def test_what_stays_in_memory(tmp_path: Path, lifecycle: Lifecycle, *, deleting: bool, kept: bool) -> None:
    """A worker lives for months, and every edit of a manifest is a new uid."""
    first = snapshot("u1")
    with PodCache(tmp_path) as cache:
        cache.publish(first)
        cache.publish(replace(first, lifecycle=lifecycle, deleting=deleting))
        assert [one.uid for one in cache.snapshots()] == (["u1"] if kept else [])


def test_a_snapshot_reaches_the_disk(tmp_path: Path) -> None:
    """The end of the cache waits for its writer."""
    with PodCache(tmp_path) as cache:
        cache.publish(snapshot("u1"))
    assert [one.uid for one in read_snapshots(tmp_path)] == ["u1"]
