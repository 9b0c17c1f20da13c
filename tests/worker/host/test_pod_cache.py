"""Does the pod cache keep what readers need, and drop pods that are gone?"""

from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from proto.pod_snapshot import read_snapshots
from proto.temporal.pod import Lifecycle
from tests.patience import PATIENCE
from tests.worker.poller.snapshots import snapshot
from worker.daemon.troubles import Troubles
from worker.host import newest_writer, pod_cache
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


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"[]", id="a-list"),
        pytest.param(b"null", id="null"),
        pytest.param(b'{"containers": 3}', id="a-number-of-containers"),
        pytest.param(b'{"containers": {"c": 3}}', id="a-number-as-a-container"),
        pytest.param(b"\xff", id="no-text"),
        pytest.param(snapshot("u1").to_json().replace(b'"pod/n/default/web/u1"', b"5"), id="an-id-that-is-a-number"),
    ],
)
def test_a_file_of_rubbish_does_not_keep_the_worker_from_starting(tmp_path: Path, content: bytes) -> None:
    """It is only a cache."""
    with PodCache(tmp_path) as cache:
        cache.publish(snapshot("u1"))
        cache.publish(snapshot("u2"))
    (tmp_path / "pods" / "u1" / "observed.json").write_bytes(content)
    with PodCache(tmp_path) as cache:
        assert [one.uid for one in cache.snapshots()] == ["u2"]


def test_a_disk_that_takes_no_file_is_told_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of one new pod cannot be made: the others are written at once, and this one as soon as it can be."""
    monkeypatch.setattr(newest_writer, "FIRST_PAUSE", 0.02)
    troubles, told, over = Troubles(), Event(), Event()

    def failed(part: str, why: BaseException | str) -> None:
        Troubles.failed(troubles, part, why)
        told.set()

    def works(part: str) -> None:
        Troubles.works(troubles, part)
        over.set()

    monkeypatch.setattr(troubles, "failed", failed)
    (tmp_path / "pods").mkdir()
    (tmp_path / "pods" / "u1").write_bytes(
        b""
    )  # in place of the folder: ENOTDIR, as root may write a full disk's reserve
    with PodCache(tmp_path, troubles=troubles) as cache:
        cache.publish(snapshot("u1"))
        assert told.wait(PATIENCE)
        assert [line.partition(":")[0] for line in troubles.lines()] == [pod_cache.PART]
        cache.publish(snapshot("u2"))
        monkeypatch.setattr(troubles, "works", works)
        (tmp_path / "pods" / "u1").unlink()
        assert over.wait(PATIENCE)
        assert troubles.lines() == ()
    assert [one.uid for one in read_snapshots(tmp_path)] == ["u1", "u2"]


def test_a_snapshot_that_is_no_json_does_not_end_the_writer(tmp_path: Path) -> None:
    """The next pod is written all the same."""
    troubles = Troubles()
    with PodCache(tmp_path, troubles=troubles) as cache:
        cache.publish(replace(snapshot("u1"), status={"odd": {1, 2}}))
        cache.publish(snapshot("u2"))
    assert [one.uid for one in read_snapshots(tmp_path)] == ["u2"]
    assert troubles.failures()[pod_cache.PART][0] == 1
