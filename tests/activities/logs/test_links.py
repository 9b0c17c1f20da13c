"""Do log agents find each running container's log by its old name, and is nothing but our own links removed?"""

from pathlib import Path

import pytest

from activities.files.pod_paths import PodPaths
from activities.logs.links import ContainerLinks, link_log
from proto.cri.v1 import api_pb2 as cri
from proto.temporal.pod import PodKey

POD = PodKey("shop", "web-n1", "u-1")
ID = "c" * 64


@pytest.fixture
def paths(tmp_path: Path) -> PodPaths:
    """Return a pod with a log."""
    found = PodPaths(tmp_path / "kubelet", tmp_path / "pods", POD)
    found.container_logs("main").mkdir(parents=True)
    (found.container_logs("main") / "0.log").write_text("")
    return found


@pytest.fixture
def links(tmp_path: Path) -> ContainerLinks:
    """Return a folder that is not there yet."""
    return ContainerLinks(tmp_path / "containers", tmp_path / "pods")


def log_of(paths: PodPaths, attempt: int = 0) -> str:
    """Name the log's path as the runtime tells it."""
    return str(paths.container_logs("main") / f"{attempt}.log")


def test_the_kubelets_name(tmp_path: Path, links: ContainerLinks, paths: PodPaths) -> None:
    """Made once, however often it is asked for; removed with the container."""
    for _ in range(2):
        links.make(POD, "main", ID, log_of(paths))
    (link,) = (tmp_path / "containers").iterdir()
    assert (link.name, str(link.readlink())) == (f"web-n1_shop_main-{ID}.log", log_of(paths))
    for _ in range(2):
        links.remove(POD, "main", ID)
    assert not list((tmp_path / "containers").iterdir())


def test_a_name_is_never_longer_than_a_file_may_be_called(links: ContainerLinks) -> None:
    """Cut before its end (legacy_test.go)."""
    name = links.name(PodKey("n" * 63, "p" * 200, "u"), "c", ID)
    assert len(name) == 255
    assert name.endswith(".log")


def test_a_container_without_a_log_has_no_link(tmp_path: Path, links: ContainerLinks, paths: PodPaths) -> None:
    """It would dangle."""
    links.make(POD, "main", ID, log_of(paths, 7))
    links.make(POD, "main", ID, "")
    assert not (tmp_path / "containers").exists()


def test_without_a_folder_nothing_is_made(tmp_path: Path, paths: PodPaths) -> None:
    """logs.legacyContainerLogsDir is empty."""
    links = ContainerLinks(None, tmp_path / "pods")
    links.make(POD, "main", ID, log_of(paths))
    links.remove(POD, "main", ID)
    links.remove_all(paths)
    assert links.sweep(()) == 0


def test_dangling_links_are_swept_but_those_of_running_containers(
    tmp_path: Path, links: ContainerLinks, paths: PodPaths
) -> None:
    """A log is away for a moment while it is rotated; another node's links and files of others are not ours."""
    links.make(POD, "main", ID, log_of(paths))
    links.make(POD, "main", "d" * 64, log_of(paths))
    folder = tmp_path / "containers"
    (folder / "x_y_z-1.log").symlink_to("/nowhere/0.log")
    (folder / "notes.log").write_text("")
    Path(log_of(paths)).unlink()
    assert links.sweep({ID}) == 1
    assert links.sweep(()) == 1
    assert sorted(one.name for one in folder.iterdir()) == ["notes.log", "x_y_z-1.log"]


def test_a_pod_takes_its_own_links_with_it(tmp_path: Path, links: ContainerLinks, paths: PodPaths) -> None:
    """Not those of a successor of its name."""
    successor = PodPaths(paths.root_dir, paths.pod_logs_dir, PodKey("shop", "web-n1", "u-2"))
    successor.container_logs("main").mkdir(parents=True)
    (successor.container_logs("main") / "0.log").write_text("")
    links.make(POD, "main", ID, log_of(paths))
    links.make(successor.key, "main", "d" * 64, log_of(successor))
    links.remove_all(paths)
    assert [one.name for one in (tmp_path / "containers").iterdir()] == [f"web-n1_shop_main-{'d' * 64}.log"]


def test_a_file_with_a_links_name_stays(tmp_path: Path, links: ContainerLinks) -> None:
    """Only links are ours."""
    place = tmp_path / "containers" / links.name(POD, "main", ID)
    place.parent.mkdir()
    place.write_text("somebody's")
    links.remove(POD, "main", ID)
    assert place.exists()


async def test_a_start_does_not_fail_for_a_link(
    tmp_path: Path, paths: PodPaths, caplog: pytest.LogCaptureFixture
) -> None:
    """A full disk or a file in the folder's place is told."""
    (tmp_path / "containers").write_text("")
    status = cri.ContainerStatus(id=ID, metadata=cri.ContainerMetadata(name="main"), log_path=log_of(paths))
    await link_log(ContainerLinks(tmp_path / "containers", tmp_path / "pods"), POD, status)
    assert "no link to the log of main of shop/web-n1" in caplog.text
