"""Is every change of the manifest folder seen at once, by the kernel's events, and is none lost?

Rescans are an hour apart here unless a test says otherwise: what is seen is seen by an event.
"""

# ruff: noqa: ASYNC240 - the test is the operator here, and its files are small

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tests.worker.poller.manifests.manifests import read
from worker.poller.manifests.manifest_folder import Listing, ManifestFolder
from worker.poller.manifests.sources import ManifestSource

NEVER = timedelta(hours=1)
A_SLOW_EDITOR = timedelta(seconds=2)
"""Longer than a busy machine holds an editor up between two steps."""


class Follower:
    """Follows a source and waits for what it shall say."""

    def __init__(self, listings: AsyncIterator[Listing]) -> None:
        self._listings = listings
        self.last = Listing()
        self.seen: list[list[str]] = []

    async def until(self, *names: str, refused: int = 0) -> Listing:
        """Wait until exactly these pods are listed and so many files refused."""
        wanted = sorted(f"default/{name}" for name in names)
        async with asyncio.timeout(PATIENCE):
            while sorted(self.last.pods) != wanted or len(self.last.refusals) != refused or not self.seen:
                await self.next()
        return self.last

    async def next(self) -> Listing:
        """Wait for the next listing."""
        self.last = await anext(self._listings)
        self.seen.append(sorted(self.last.pods))
        return self.last


@asynccontextmanager
async def following(path: Path, every: timedelta = NEVER) -> AsyncIterator[Follower]:
    """Follow a path."""
    async with aclosing(ManifestSource(ManifestFolder(path, read), every).listings()) as listings:
        yield Follower(listings)


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    """Make the folder."""
    path = tmp_path / "manifests"
    path.mkdir()
    return path


def written(path: Path, text: str) -> None:
    """Write through a temporary file and a rename."""
    new = path.with_name(f".{path.name}.new")
    new.write_text(text)
    new.rename(path)


def linked(path: Path, text: str) -> None:
    """Write elsewhere, then give it a second name in the folder."""
    other = path.parent.parent / "elsewhere"
    other.write_text(text)
    os.link(other, path)


def symlinked(path: Path, text: str) -> None:
    """Write elsewhere, then link to it."""
    other = path.parent.parent / "elsewhere"
    other.write_text(text)
    path.symlink_to(other)


def in_pieces(path: Path, text: str) -> None:
    """Write byte by byte, each on disk before the next."""
    with path.open("w") as file:
        for letter in text:
            file.write(letter)
            file.flush()


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda path, text: path.write_text(text), id="written-in-place"),
        pytest.param(written, id="renamed-over"),
        pytest.param(linked, id="hard-linked"),
        pytest.param(symlinked, id="symlinked"),
        pytest.param(in_pieces, id="written-in-pieces"),
    ],
)
async def test_a_manifest_is_seen_however_it_is_written(manifests: Path, write: Callable[[Path, str], None]) -> None:
    """And never half of it: the first listing with anything in it has the whole pod and no refusal."""
    async with following(manifests) as follower:
        await follower.until()
        write(manifests / "web.yaml", "pod web")
        await follower.until("web")
        assert all(names in ([], ["default/web"]) for names in follower.seen)


async def test_edit_rename_and_removal_are_seen(manifests: Path) -> None:
    """Each by its event."""
    path = manifests / "web.yaml"
    async with following(manifests) as follower:
        await follower.until()
        path.write_text("pod web")
        await follower.until("web")
        path.write_text("pod other")
        await follower.until("other")
        path.rename(manifests / "renamed.yaml")
        assert str((await follower.next()).pods["default/other"].path) == str(manifests / "renamed.yaml")
        (manifests / "renamed.yaml").rename(manifests.parent / "outside")
        await follower.until()
        (manifests.parent / "outside").rename(manifests / "web.yaml")
        await follower.until("other")
        path.unlink()
        await follower.until()


async def test_an_editor_that_renames_back_and_forth_restarts_nothing(
    manifests: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The backup that takes the pod's place for a moment never becomes its manifest."""
    monkeypatch.setattr("worker.poller.manifests.sources.REMOVAL_SETTLES", A_SLOW_EDITOR)
    path, backup = manifests / "web.yaml", manifests / "web.yaml~"
    path.write_text("pod web 1")
    async with following(manifests) as follower:
        await follower.until("web")
        next_listing = asyncio.create_task(follower.next())
        for step in (lambda: path.rename(backup), lambda: path.write_text("pod web 2"), backup.unlink):
            step()
            await asyncio.sleep(0.01)  # an editor's pace: each step is an event of its own
        listing = await next_listing
        assert (listing.pods["default/web"].uid, listing.refusals) == ("2", ())


def removed_and_made_again(path: Path) -> None:
    """As somebody does who wants a restart."""
    text = path.read_text()
    path.unlink()
    path.write_text(text)


def saved_by_an_editor(path: Path) -> None:
    """Which writes a new file, and removes its backup."""
    text, backup = path.read_text(), path.with_name("web.yaml~")
    path.rename(backup)
    path.write_text(text)
    backup.unlink()


def replaced_in_one_go(path: Path) -> None:
    """By a rename over it."""
    new = path.with_name(".new")
    new.write_text(path.read_text())
    new.rename(path)


@pytest.mark.parametrize(
    ("change", "remade"),
    [
        pytest.param(removed_and_made_again, {"default/web"}, id="removed-and-made-again"),
        pytest.param(saved_by_an_editor, set(), id="saved-by-an-editor"),
        pytest.param(replaced_in_one_go, set(), id="replaced-in-one-go"),
    ],
)
async def test_the_same_content_in_another_file(
    manifests: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None], remade: set[str]
) -> None:
    """The kubelet restarts the pod for all but the last; here an editor restarts nothing."""
    monkeypatch.setattr("worker.poller.manifests.sources.REMOVAL_SETTLES", A_SLOW_EDITOR / 4)
    path = manifests / "web.yaml"
    path.write_text("pod web 1")
    async with following(manifests) as follower:
        await follower.until("web")
        change(path)
        told = await follower.next()
        assert (set(told.remade), sorted(told.pods)) == (remade, ["default/web"])
        (manifests / "other.yaml").write_text("pod other")
        assert (await follower.until("other", "web")).remade == set()


async def test_only_the_removal_of_a_pods_file_waits(manifests: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A manifest that is renamed into place is listed at once; a removal waits."""
    monkeypatch.setattr("worker.poller.manifests.sources.REMOVAL_SETTLES", NEVER)
    async with following(manifests) as follower:
        await follower.until()
        written(manifests / "web.yaml", "pod web")
        await follower.until("web")


async def test_a_rescan_finds_what_no_event_tells(manifests: Path) -> None:
    """A link's target is in another folder."""
    target = manifests.parent / "target"
    target.write_text("pod one")
    (manifests / "web.yaml").symlink_to(target)
    async with following(manifests, every=timedelta(milliseconds=50)) as follower:
        await follower.until("one")
        target.write_text("pod two")
        await follower.until("two")


async def test_a_folder_that_goes_and_comes_is_followed(manifests: Path) -> None:
    """Removed, renamed away or not yet made: the watch follows the path."""
    (manifests / "web.yaml").write_text("pod web")
    async with following(manifests) as follower:
        await follower.until("web")
        shutil.rmtree(manifests)
        await follower.until(refused=1)
        manifests.mkdir()
        await follower.until()
        (manifests / "web.yaml").write_text("pod again")
        await follower.until("again")
        manifests.rename(manifests.with_name("away"))
        await follower.until(refused=1)
        manifests.with_name("away").rename(manifests)
        await follower.until("again")
        (manifests / "second.yaml").write_text("pod second")
        await follower.until("again", "second")


def made_anew(folder: Path) -> None:
    """Remove a folder and make it again, with the number that it had wherever the file system gives that again."""
    number = folder.stat().st_ino
    shutil.rmtree(folder)
    for count in range(100):
        new = folder.with_name(f"new-{count}")
        new.mkdir()
        if new.stat().st_ino == number:
            break
    new.rename(folder)


async def test_a_folder_that_is_made_anew_in_one_go_is_followed(manifests: Path) -> None:
    """It may have the inode number of the old one, whose watch is gone."""
    (manifests / "web.yaml").write_text("pod web")
    async with following(manifests) as follower:
        await follower.until("web")
        made_anew(manifests)
        await follower.until()
        (manifests / "web.yaml").write_text("pod again")
        await follower.until("again")


async def test_a_path_that_is_switched_by_a_link_is_followed(manifests: Path) -> None:
    """The folder is named by a link that an operator changes."""
    link, other = manifests.with_name("current"), manifests.with_name("other")
    (manifests / "web.yaml").write_text("pod web")
    other.mkdir()
    link.symlink_to(manifests)
    async with following(link, every=timedelta(milliseconds=50)) as follower:
        await follower.until("web")
        new = manifests.with_name("new")
        new.symlink_to(other)
        new.replace(link)
        await follower.until()
        (other / "web.yaml").write_text("pod switched")
        await follower.until("switched")


async def test_a_single_file_is_followed_through_its_replacement(manifests: Path) -> None:
    """The watch is on its folder, so a rename over it does not lose it."""
    path = manifests / "web.yaml"
    path.write_text("pod web")
    async with following(path) as follower:
        await follower.until("web")
        (manifests / "neighbour.yaml").write_text("pod neighbour")
        written(path, "pod two")
        await follower.until("two")
        path.unlink()
        await follower.until()
