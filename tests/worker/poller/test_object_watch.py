"""Is each pod signalled once that an object it uses has a new version, despite losses and restarts?"""

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from activities.objects.objects import ObjectKind
from proto.pod_snapshot import PodSnapshot
from tests.worker.poller.snapshots import snapshot
from worker.machine.inotify import WatchedFolders
from worker.objects.folder import ObjectFolder
from worker.objects.object_hints import LastNotified, object_hints
from worker.poller import object_watch
from worker.poller.calls.pod_workflows import PodWorkflows
from worker.poller.object_watch import ObjectWatch, folders_of, versions_of
from worker.poller.runtime.known_pods import KnownPods

APP = "configmaps/app"
KEY = ("default", APP)


def showing(name: str = "web", **objects: str) -> PodSnapshot:
    """Write down what a pod shows; two underscores are the slash."""
    shown = {one.replace("__", "/"): version for one, version in objects.items()}
    return replace(snapshot(f"uid-{name}", name=name), objects=shown)


ID = showing().workflow_id


@pytest.mark.parametrize(
    ("pod", "versions", "told", "hints", "kept"),
    [
        pytest.param(showing(configmaps__app="1"), {KEY: "1"}, {}, {}, {}, id="nothing-changed"),
        pytest.param(showing(configmaps__app="1"), {KEY: "2"}, {}, {APP: "2"}, {}, id="another-version"),
        pytest.param(showing(configmaps__app="1"), {}, {}, {APP: ""}, {}, id="gone"),
        pytest.param(showing(configmaps__app=""), {KEY: "1"}, {}, {APP: "1"}, {}, id="come"),
        pytest.param(showing(configmaps__app=""), {}, {}, {}, {}, id="absent-as-it-was"),
        pytest.param(
            showing(configmaps__app="1"), {KEY: "2"}, {(ID, APP): "2"}, {}, {(ID, APP): "2"}, id="told-already"
        ),
        pytest.param(
            showing(configmaps__app="1"), {KEY: "3"}, {(ID, APP): "2"}, {APP: "3"}, {(ID, APP): "2"}, id="a-third"
        ),
        pytest.param(showing(configmaps__app="2"), {KEY: "2"}, {(ID, APP): "2"}, {}, {}, id="shown-and-forgotten"),
        pytest.param(showing(configmaps__app="=1"), {KEY: "2"}, {}, {}, {}, id="immutable"),
        pytest.param(
            showing(configmaps__app="?"), {KEY: "1"}, {}, {}, {(ID, APP): "1"}, id="wanted-and-there-is-read-anyway"
        ),
        pytest.param(
            showing(configmaps__app="?"), {KEY: "1"}, {(ID, APP): ""}, {APP: "1"}, {(ID, APP): ""}, id="awaited-and-come"
        ),
        pytest.param(
            replace(showing(configmaps__app="1"), namespace="other"), {KEY: "2", ("other", APP): "1"}, {}, {}, {},
            id="an-object-of-another-namespace",
        ),
        pytest.param(
            replace(showing(configmaps__app="1"), deleting=True), {KEY: "2"}, {}, {}, {}, id="a-pod-that-goes"
        ),
    ],
)  # fmt: skip
def test_who_is_told_what(
    pod: PodSnapshot,
    versions: dict[tuple[str, str], str],
    told: LastNotified,
    hints: dict[str, str],
    kept: LastNotified,
) -> None:
    """Each version once, and again only after a restart of the poller."""
    found, remembered = object_hints([pod], versions, told, None)
    assert {name: version for hint in found for name, version in hint.versions.items()} == hints
    assert {hint.workflow_id for hint in found} <= {ID}
    assert remembered == kept


def test_what_a_new_pod_waits_for_is_told_when_it_comes() -> None:
    """Also if the poller had not seen the pod before; what existed at its listing, the pod reads itself."""
    waiting = [showing(configmaps__app="?")]
    assert [hint.versions for hint in object_hints(waiting, {KEY: "1"}, {}, {})[0]] == [{APP: "1"}]
    assert object_hints(waiting, {KEY: "1"}, {}, {KEY: "1"})[0] == []


def put(folder: Path, place: str, text: str = "x") -> Path:
    """Put a file there by mv."""
    path = folder / place
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(".new")
    scratch.write_text(text)
    return scratch.rename(path)


def test_versions_are_those_that_the_worker_reads(tmp_path: Path) -> None:
    """Of ConfigMaps and Secrets, with any suffix; other files are ignored."""
    for place in ("default/configmaps/a.yaml", "default/secrets/b.json", "other/configmaps/a.yml"):
        put(tmp_path, place)
    for place in ("default/configmaps/.hidden.yaml", "default/configmaps/notes.txt", "default/x.yaml", "stray.yaml"):
        put(tmp_path, place)
    put(tmp_path, "_cluster/persistentvolumes/disk.yaml")
    found = versions_of(tmp_path)
    assert set(found) == {("default", "configmaps/a"), ("default", "secrets/b"), ("other", "configmaps/a")}
    put(tmp_path, "default/configmaps/a.yaml", "y")
    assert versions_of(tmp_path)[KEY[0], "configmaps/a"] != found[KEY[0], "configmaps/a"]
    assert versions_of(tmp_path / "nowhere") == {}


def test_a_link_a_fifo_and_a_loop_hold_nothing_up(tmp_path: Path) -> None:
    """They are looked at, never opened or followed."""
    place = tmp_path / "default/configmaps"
    place.mkdir(parents=True)
    (place / "link.yaml").symlink_to("/dev/zero")
    (place / "loop.yaml").symlink_to("loop.yaml")
    os.mkfifo(place / "fifo.yaml")
    (tmp_path / "loop").symlink_to(".")
    assert {name for _, name in versions_of(tmp_path)} >= {"configmaps/link", "configmaps/loop", "configmaps/fifo"}
    assert tmp_path / "loop" not in folders_of(tmp_path)


async def test_the_folder_and_the_worker_agree_on_versions(tmp_path: Path) -> None:
    """Otherwise every pod would be signalled for ever."""
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\n"
    put(tmp_path, "default/configmaps/app.yaml", text)
    kept = await ObjectFolder(tmp_path).get(ObjectKind.CONFIG_MAPS, "default", "app")
    assert versions_of(tmp_path) == {KEY: kept.version}


async def test_several_folders_are_watched_by_one_descriptor(tmp_path: Path) -> None:
    """A new folder is watched from then on, a removed one no longer."""
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    with WatchedFolders() as watch:
        assert len(watch.watch([first, second])) == 1
        (first / "x").touch()
        await asyncio.wait_for(watch.wait(), 20)
        assert {event.name for event in watch.read()} == {"x"}
        second.mkdir()
        assert watch.watch([second]) == []
        watch.read()
        (first / "y").touch()
        (second / "z").touch()
        await asyncio.wait_for(watch.wait(), 20)
        assert "y" not in {event.name for event in watch.read()}


async def test_without_a_watch_the_folder_is_looked_at_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user may have only so many, and the poller lives on."""

    def none_left() -> WatchedFolders:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(object_watch, "WatchedFolders", none_left)
    monkeypatch.setattr(object_watch, "RETRY", 0.01)
    turns = asyncio.Semaphore(0)
    workflows = cast("PodWorkflows", None)  # there is no pod to tell
    watch = ObjectWatch(tmp_path, KnownPods(tmp_path, "n"), workflows)
    following = asyncio.create_task(watch.follow(60, turns.release))
    async with asyncio.timeout(20):
        for _ in range(3):
            await turns.acquire()
    following.cancel()
