"""Which pods does a folder list, and does an invalid file never affect another file's pod?"""

import os
import socket
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.worker.poller.manifests.manifests import read, static_pod
from worker.poller.manifests.manifest_file import LARGEST
from worker.poller.manifests.manifest_folder import Listing, ManifestFolder, one_file_a_pod

LATER = timedelta(seconds=10)


def now() -> datetime:
    """Return a time at which every file written so far counts as settled."""
    return datetime.now(UTC) + LATER


def names(listing: Listing) -> list[str]:
    """Name the listed pods."""
    return sorted(listing.pods)


def reasons(listing: Listing) -> dict[str, str]:
    """Return each refused file's reason."""
    return {Path(one.path).name: one.reason for one in listing.refusals}


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    """Make the folder."""
    path = tmp_path / "manifests"
    path.mkdir()
    return path


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        os.chdir(path.parent)  # a socket's path is short
        listener.bind(path.name)


def _too_large(path: Path) -> None:
    path.touch()
    os.truncate(path, LARGEST + 1)


def _self_link(path: Path) -> None:
    path.symlink_to(path)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        pytest.param(lambda path: path.mkdir(), "NotAFile", id="a-folder-called-yaml"),
        pytest.param(os.mkfifo, "NotAFile", id="a-fifo-nobody-feeds"),
        pytest.param(_socket, "NotAFile", id="a-socket"),
        pytest.param(lambda path: path.symlink_to("/dev/zero"), "NotAFile", id="a-link-to-an-endless-device"),
        pytest.param(lambda path: path.symlink_to("/nowhere"), "DanglingLink", id="a-link-to-nothing"),
        pytest.param(_self_link, "ManifestUnreadable", id="a-link-to-itself"),
        pytest.param(lambda path: path.write_text("nonsense"), "InvalidPod", id="no-pod"),
        pytest.param(lambda path: path.write_text("crash"), "ManifestNotJudged", id="a-reader-that-fails"),
        pytest.param(lambda path: path.write_bytes(b""), "InvalidPod", id="an-empty-file"),
        pytest.param(_too_large, "ManifestTooLarge", id="too-large"),
    ],
)
def test_what_is_no_manifest_is_refused_at_once_and_alone(
    manifests: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None], reason: str
) -> None:
    """Each gets a reason, nothing blocks, and the good file beside it is listed."""
    monkeypatch.chdir(manifests)
    (manifests / "good.yaml").write_text("pod good")
    make(manifests / "bad.yaml")
    listing = ManifestFolder(manifests, read).rescan(now())
    assert names(listing) == ["default/good"]
    assert reasons(listing) == {"bad.yaml": reason}
    assert listing.refusals[0].message


def test_dot_files_are_not_looked_at(manifests: Path) -> None:
    """Editors and ConfigMap volumes keep their own things there."""
    (manifests / ".hidden.yaml").write_text("nonsense")
    (manifests / "plain-name").write_text("pod web")
    folder = ManifestFolder(manifests, read)
    assert names(folder.rescan(now())) == ["default/web"]
    assert folder.refresh({".hidden.yaml"}, {".hidden.yaml"}, now()).refusals == ()


def test_a_file_that_stops_parsing_keeps_its_pod_and_shows_the_error(manifests: Path) -> None:
    """The pod keeps running until the file changes or is removed."""
    path = manifests / "web.yaml"
    path.write_text("pod web")
    folder = ManifestFolder(manifests, read)
    good = folder.rescan(now()).pods["default/web"]
    path.write_text("po")
    broken = folder.rescan(now())
    assert broken.pods["default/web"] is good
    assert [(one.reason, one.pod, one.pod_kept) for one in broken.refusals] == [("InvalidPod", "default/web", True)]
    path.write_text("pod web")
    mended = folder.rescan(now())
    assert (names(mended), mended.refusals) == (["default/web"], ())
    path.unlink()
    assert names(folder.rescan(now())) == []


def test_a_refusal_keeps_the_time_at_which_it_arose(manifests: Path) -> None:
    """An operator sees since when a file is broken, not when it was last looked at."""
    (manifests / "bad.yaml").write_text("nonsense")
    folder, first = ManifestFolder(manifests, read), now()
    assert [one.since for one in folder.rescan(first).refusals] == [first.isoformat(timespec="seconds")]
    assert [one.since for one in folder.rescan(first + LATER).refusals] == [first.isoformat(timespec="seconds")]


def test_a_new_broken_file_is_undecided_until_it_parses(manifests: Path) -> None:
    """It may hold any pod, so no pod may be deleted for it."""
    path = manifests / "web.yaml"
    path.write_text("po")
    folder = ManifestFolder(manifests, read)
    assert folder.rescan(now()).undecided == {str(path)}
    path.write_text("pod web")
    assert folder.rescan(now()).undecided == frozenset()


def test_a_file_that_was_just_touched_waits_unless_its_writer_closed_it(manifests: Path) -> None:
    """A partial manifest can be a valid pod; an event of the close ends the wait."""
    path = manifests / "web.yaml"
    path.write_text("pod web")
    folder, at_once = ManifestFolder(manifests, read), datetime.now(UTC)
    waiting = folder.rescan(at_once)
    assert (names(waiting), waiting.unsettled, set(waiting.undecided)) == ([], True, {str(path)})
    closed = folder.refresh({"web.yaml"}, {"web.yaml"}, at_once)
    assert (names(closed), closed.unsettled) == (["default/web"], False)


def test_an_unchanged_file_is_not_read_again(manifests: Path) -> None:
    """The rescan of a node at rest costs a stat a file."""
    (manifests / "web.yaml").write_text("pod web")
    seen: list[Path] = []

    def counting(path: Path, data: bytes, at: datetime) -> object:
        seen.append(path)
        return read(path, data, at)

    folder = ManifestFolder(manifests, counting)  # type: ignore[arg-type]  # the same function, counted
    first = folder.rescan(now())
    assert folder.rescan(now()).pods["default/web"] is first.pods["default/web"]
    (manifests / "web.yaml").touch()
    assert folder.rescan(now()).pods["default/web"] is first.pods["default/web"]
    assert len(seen) == 1


def test_a_link_is_followed_to_its_new_target(manifests: Path, tmp_path: Path) -> None:
    """A rescan sees what has no event in the folder."""
    (tmp_path / "one").write_text("pod one")
    (tmp_path / "two").write_text("pod two")
    link = manifests / "web.yaml"
    link.symlink_to(tmp_path / "one")
    folder = ManifestFolder(manifests, read)
    assert names(folder.rescan(now())) == ["default/one"]
    (tmp_path / "two").replace(tmp_path / "one")
    assert names(folder.rescan(now())) == ["default/two"]


def test_a_missing_folder_has_no_pods_and_says_so(manifests: Path) -> None:
    """As in the kubelet: without a folder there are no static pods; they return with it."""
    (manifests / "web.yaml").write_text("pod web")
    folder = ManifestFolder(manifests, read)
    folder.rescan(now())
    away = manifests.rename(manifests.with_name("away"))
    missing = folder.rescan(now())
    assert (names(missing), reasons(missing), missing.readable) == ([], {"manifests": "NoManifestFolder"}, True)
    away.rename(manifests)
    back = folder.rescan(now())
    assert (names(back), back.refusals) == (["default/web"], ())


def test_a_folder_that_cannot_be_read_changes_nothing(manifests: Path) -> None:
    """An I/O error is no wish of the operator's."""
    (manifests / "web.yaml").write_text("pod web")
    folder = ManifestFolder(manifests, read)
    folder.rescan(now())
    manifests.rename(manifests.with_name("away"))
    manifests.symlink_to(manifests)  # ELOOP
    listing = folder.rescan(now())
    assert (names(listing), listing.readable) == (["default/web"], False)
    assert reasons(listing) == {"manifests": "ManifestFolderUnreadable"}


def test_a_single_file_is_a_folder_of_one(manifests: Path) -> None:
    """The staticPodPath may be a file; its neighbours are none of our business."""
    path = manifests / "web.yaml"
    path.write_text("pod web")
    (manifests / "other.yaml").write_text("pod other")
    folder = ManifestFolder(path, read)
    assert names(folder.rescan(now())) == ["default/web"]
    assert names(folder.refresh({"other.yaml"}, {"other.yaml"}, now())) == ["default/web"]
    path.unlink()
    assert names(folder.rescan(now())) == []


A, B, C = Path("/m/a.yaml"), Path("/m/b.yaml"), Path("/m/c.yaml")


@pytest.mark.parametrize(
    ("pods", "undecided", "holders", "chosen", "refused"),
    [
        pytest.param(
            {A: ("x", "1"), B: ("x", "2")}, (), {}, {"default/x": A}, {B: "/m/a.yaml"}, id="the-first-by-name"
        ),
        pytest.param(
            {A: ("x", "1"), B: ("x", "2")},
            (),
            {"default/x": str(B)},
            {"default/x": B},
            {A: "/m/b.yaml"},
            id="the-one-that-runs",
        ),
        pytest.param(
            {A: ("x", "1")},
            (str(C),),
            {"default/x": str(C)},
            {},
            {A: "/m/c.yaml"},
            id="the-one-that-runs-though-broken",
        ),
        pytest.param(
            {A: ("x", "1")}, (), {"default/x": str(C)}, {"default/x": A}, {}, id="the-next-when-the-holder-is-gone"
        ),
        pytest.param({A: ("x", "1"), B: ("y", "1")}, (), {}, {"default/x": A}, {B: "/m/a.yaml"}, id="one-uid-once"),
        pytest.param(
            {A: ("x", "1"), B: ("y", "2")},
            (),
            {"default/z": str(A)},
            {"default/x": A, "default/y": B},
            {},
            id="no-clash",
        ),
    ],
)
def test_one_file_holds_a_pod_and_the_other_is_told_which(
    pods: dict[Path, tuple[str, str]],
    undecided: tuple[str, ...],
    holders: dict[str, str],
    chosen: dict[str, Path],
    refused: dict[Path, str],
) -> None:
    """The refusal names the other file."""
    candidates = {str(path): static_pod(path, *pod) for path, pod in pods.items()}
    got, objections = one_file_a_pod(candidates, undecided, holders)
    assert {name: pod.path for name, pod in got.items()} == chosen
    assert objections.keys() == {str(path) for path in refused}
    for path, holder in refused.items():
        assert holder in objections[str(path)].message


def test_the_second_of_two_doubles_steps_in_when_the_first_goes(manifests: Path) -> None:
    """And the refusal goes with its reason."""
    for name in ("a.yaml", "b.yaml"):
        (manifests / name).write_text("pod web")
    folder = ManifestFolder(manifests, read)
    first = folder.rescan(now())
    assert (Path(first.pods["default/web"].path).name, reasons(first)) == ("a.yaml", {"b.yaml": "DuplicatePodName"})
    (manifests / "a.yaml").unlink()
    second = folder.rescan(now())
    assert (Path(second.pods["default/web"].path).name, second.refusals) == ("b.yaml", ())
    (manifests / "a.yaml").write_text("pod web")
    third = folder.rescan(now())
    assert (Path(third.pods["default/web"].path).name, reasons(third)) == ("b.yaml", {"a.yaml": "DuplicatePodName"})
