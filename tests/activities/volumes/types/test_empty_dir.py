"""Is an emptyDir what its medium and size say, also repeatedly and after a crash, and removed with its content?"""

import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from activities.files import mounts
from activities.files.file_trees import StillMounted
from activities.volumes.plugin.volume_type import PodVolume, VolumeFailed
from activities.volumes.types import empty_dir
from activities.volumes.types.empty_dir import memory_size, page_size
from proto.kubernetes.resources.quantity import parse_quantity
from proto.temporal.pod import PodJson, PodKey
from tests.activities.volume_node import volume_services
from tests.activities.volumes.quotas.counted_disk import CountedDisk

HUGE = Path("/sys/kernel/mm/hugepages/hugepages-2048kB")
MIB = 1024**2
NODE = 1024 * MIB


def pod(*limits: str, init: str = "", **spec: Any) -> PodJson:
    """Return a pod whose containers have these memory limits; an empty one has none."""
    containers = [{"name": f"c{number}", "resources": limited(limit)} for number, limit in enumerate(limits)]
    begin = {"initContainers": [{"name": "init", "resources": limited(init)}]} if init else {}
    return {"metadata": {}, "spec": {"containers": containers, **begin, **spec}}


def limited(limit: str) -> PodJson:
    """Return a memory limit, and the request that follows from it."""
    return {"limits": {"memory": limit}, "requests": {"memory": limit}} if limit else {}


@pytest.mark.parametrize(
    ("limit", "limits", "expected"),
    [
        pytest.param("", (), NODE, id="no-limit-at-all-is-what-the-node-has-for-pods"),
        pytest.param("", ("",), NODE, id="a-container-without-limit-too"),
        pytest.param("", ("100Mi",), 100 * MIB, id="the-pods-memory-limit"),
        pytest.param("", ("100Mi", "50Mi"), 150 * MIB, id="the-sum-of-its-containers"),
        pytest.param("", ("100Mi", ""), NODE, id="one-without-limit-leaves-the-pod-without"),
        pytest.param("", ("2Gi",), NODE, id="never-more-than-the-node-has"),
        pytest.param("10Mi", ("100Mi",), 10 * MIB, id="sizeLimit-below-the-pods-limit"),
        pytest.param("10Mi", (), 10 * MIB, id="sizeLimit-below-the-nodes"),
        pytest.param("200Mi", ("100Mi",), 100 * MIB, id="sizeLimit-above-the-pods-limit"),
        pytest.param("2Gi", (), NODE, id="sizeLimit-above-the-nodes"),
        pytest.param("0", ("100Mi",), 100 * MIB, id="a-sizeLimit-of-nought-is-none"),
        pytest.param("-1Mi", ("100Mi",), 100 * MIB, id="nor-is-a-negative-one"),
    ],
)
def test_size_in_memory(limit: str, limits: tuple[str, ...], expected: int) -> None:
    """The smallest of all (pkg/volume/emptydir/empty_dir_test.go TestCalculateEmptyDirMemorySize)."""
    assert memory_size({"sizeLimit": limit} if limit else {}, pod(*limits), NODE) == expected


def test_size_in_memory_with_a_hungry_init_container() -> None:
    """The pod's limit includes its init containers."""
    assert memory_size({}, pod("100Mi", init="300Mi"), NODE) == 300 * MIB


def with_pages(*sizes: str) -> PodJson:
    """Return a pod whose containers request huge pages."""
    containers = [{"name": one, "resources": {"requests": {f"hugepages-{one}": "4Mi"}}} for one in sizes]
    return {"spec": {"containers": containers or [{"name": "web"}]}}


@pytest.mark.parametrize(
    ("medium", "sizes", "expected"),
    [
        pytest.param("HugePages", ("2Mi",), "2Mi", id="the-one-size-that-is-asked-for"),
        pytest.param("HugePages", ("2Mi", "2Mi"), "2Mi", id="by-two-containers"),
        pytest.param("HugePages-1Gi", ("2Mi", "1Gi"), "1Gi", id="the-one-that-the-medium-names"),
        pytest.param(
            "HugePages",
            (),
            "medium HugePages: hugePages storage requested, but there is no resource request for huge pages",
            id="nobody-asks",
        ),
        pytest.param(
            "HugePages-1Gi",
            ("2Mi",),
            "medium HugePages-1Gi: hugePages storage requested, but there is no resource request for huge pages",
            id="nobody-asks-for-that-size",
        ),
        pytest.param(
            "HugePages",
            ("2Mi", "1Gi"),
            "medium: HugePages can't be used if container requests multiple huge page sizes",
            id="two-sizes",
        ),
    ],
)
def test_page_sizes(medium: str, sizes: tuple[str, ...], expected: str) -> None:
    """By the medium and the containers' requests (TestGetPageSizeMountOption)."""
    if expected.startswith("medium"):
        with pytest.raises(VolumeFailed) as refused:
            page_size(medium, with_pages(*sizes))
        assert str(refused.value) == expected
    else:
        assert page_size(medium, with_pages(*sizes)) == parse_quantity(expected)


@pytest.fixture
async def volume(tmp_path: Path) -> AsyncIterator[PodVolume]:
    """Return a volume on a node with 1 GiB for pods."""
    async with volume_services(tmp_path, allocatable={"memory": parse_quantity("1Gi")}) as services:
        key = PodKey("default", "web", "uid-1")
        yield PodVolume(key, "data", {}, pod("10Mi"), services)
        mounts.unmount(place(services.settings.root_dir))


def place(root: Path) -> Path:
    """Return the volume's path."""
    return root / "pods/uid-1/volumes/kubernetes.io~empty-dir/data"


def directory(volume: PodVolume) -> Path:
    """Return the volume's path."""
    return place(volume.services.settings.root_dir)


async def test_in_memory(volume: PodVolume) -> None:
    """A tmpfs of its size, found the second time with its content, writable for all; then removed."""
    volume = replace(volume, source={"medium": "Memory", "sizeLimit": "1Mi"})
    first = await empty_dir.TYPE.mount(volume)
    (directory(volume) / "file").write_text("kept")
    second = await empty_dir.TYPE.mount(volume)
    assert (first.found, second.found) == (False, True)
    there = mounts.mount_at(directory(volume))
    assert there is not None
    assert there.kind == "tmpfs"
    assert {"size=1024k", "noswap"} <= {*there.super_options}
    assert directory(volume).stat().st_mode & 0o777 == 0o777
    assert (directory(volume) / "file").read_text() == "kept"
    for _ in range(2):
        await empty_dir.TYPE.unmount(volume)
        assert not directory(volume).exists()


async def test_after_the_node_was_down(volume: PodVolume) -> None:
    """The ready file and the folder exist, the mount does not: it is mounted again, empty."""
    volume = replace(volume, source={"medium": "Memory"})
    await empty_dir.TYPE.mount(volume)
    mounts.unmount(directory(volume))
    assert not (await empty_dir.TYPE.mount(volume)).found
    assert mounts.is_mount_point(directory(volume))


@pytest.mark.parametrize("medium", ["", "Memory"])
@pytest.mark.parametrize("step", ["mkdir", "mount", "give", "mark"])
async def test_killed_halfway(volume: PodVolume, medium: str, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the worker dies, the next try ends with one complete volume, and the undo with none."""
    spec = {**volume.pod_spec["spec"], "securityContext": {"fsGroup": 4321}}
    volume = replace(volume, source={"medium": medium}, pod_spec={**volume.pod_spec, "spec": spec})

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    where = {
        "mkdir": "activities.volumes.types.empty_dir.file_system"
        if not medium
        else "activities.volumes.types.empty_dir._mount",
        "mount": "activities.volumes.types.empty_dir.apply_fs_group",
        "give": "activities.volumes.plugin.ownership.os.chown",
        "mark": "pathlib.Path.touch",
    }[step]
    with monkeypatch.context() as patched:
        patched.setattr(where, killed)
        with pytest.raises(KeyboardInterrupt):
            empty_dir.make(volume, directory(volume))
    await empty_dir.TYPE.mount(volume)
    points = mounts.mounts_below(directory(volume))
    assert points == ([str(directory(volume))] if medium else [])
    assert directory(volume).stat().st_gid == 4321
    assert (await empty_dir.TYPE.mount(volume)).found
    await empty_dir.TYPE.unmount(volume)
    assert not directory(volume).exists()
    assert mounts.mounts_below(directory(volume)) == []


async def test_the_group_is_given_once(volume: PodVolume) -> None:
    """Later changes by a container stay."""
    spec = {**volume.pod_spec["spec"], "securityContext": {"fsGroup": 4321, "fsGroupChangePolicy": "OnRootMismatch"}}
    volume = replace(volume, pod_spec={**volume.pod_spec, "spec": spec})
    await empty_dir.TYPE.mount(volume)
    assert (directory(volume).stat().st_gid, directory(volume).stat().st_mode & 0o7777) == (4321, 0o2777)
    directory(volume).chmod(0o700)
    await empty_dir.TYPE.mount(volume)
    assert directory(volume).stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(not HUGE.exists(), reason="this machine's kernel has no huge pages of 2 MiB")
async def test_huge_pages(volume: PodVolume) -> None:
    """Hugetlbfs with the requested page size; a different size at the same path is refused."""
    asking = with_pages("2Mi")
    volume = replace(volume, source={"medium": "HugePages-2Mi"}, pod_spec=asking)
    for found in (False, True):
        assert (await empty_dir.TYPE.mount(volume)).found is found
    there = mounts.mount_at(directory(volume))
    assert there is not None
    assert (there.kind, "pagesize=2M" in there.super_options) == ("hugetlbfs", True)
    empty_dir.ready_file(volume).unlink()
    with pytest.raises(VolumeFailed, match="pagesize '2Mi' and requested medium HugePages-1Gi differ"):
        await empty_dir.TYPE.mount(replace(volume, source={"medium": "HugePages-1Gi"}))
    await empty_dir.TYPE.unmount(volume)
    assert not directory(volume).exists()


async def test_huge_pages_that_the_machine_does_not_have(volume: PodVolume) -> None:
    """The message says what is missing."""
    volume = replace(volume, source={"medium": "HugePages"}, pod_spec=with_pages("3Mi"))
    with pytest.raises(VolumeFailed, match="this machine's kernel has no huge pages of 3145728 bytes"):
        await empty_dir.TYPE.mount(volume)
    await empty_dir.TYPE.unmount(volume)


async def test_an_unknown_medium(volume: PodVolume) -> None:
    """The kubelet's words."""
    with pytest.raises(VolumeFailed, match='unknown storage medium "Tape"'):
        await empty_dir.TYPE.mount(replace(volume, source={"medium": "Tape"}))


async def test_a_volume_in_use_stays_whole(volume: PodVolume) -> None:
    """Unmounting fails while a file is open, and the content stays; later it succeeds."""
    volume = replace(volume, source={"medium": "Memory"})
    await empty_dir.TYPE.mount(volume)
    with (directory(volume) / "file").open("w"):
        with pytest.raises(OSError, match="busy"):
            await empty_dir.TYPE.unmount(volume)
        assert (directory(volume) / "file").exists()
    await empty_dir.TYPE.unmount(volume)
    assert not directory(volume).exists()


@pytest.mark.parametrize("kind", ["bind", "tmpfs"])
async def test_what_is_mounted_in_a_volume_is_not_removed(volume: PodVolume, tmp_path: Path, kind: str) -> None:
    """A privileged container has mounted something there: nothing behind the mount is removed, nor anything beside it."""
    await empty_dir.TYPE.mount(volume)
    precious, point = tmp_path / "precious", directory(volume) / "point"
    precious.mkdir()
    point.mkdir()
    (directory(volume) / "beside").write_text("")
    if kind == "bind":
        mounts.bind(precious, point)
    else:
        mounts.mount("none", point, "tmpfs")
    (point / "file").write_text("the node's")
    try:
        with pytest.raises(StillMounted, match="still mounted"):
            await empty_dir.TYPE.unmount(volume)
        assert (point / "file").read_text() == "the node's"
        assert (directory(volume) / "beside").exists()
    finally:
        mounts.unmount(point)
    await empty_dir.TYPE.unmount(volume)
    assert not directory(volume).exists()
    assert (precious / "file").exists() == (kind == "bind")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
async def test_a_link_in_its_place_is_refused(volume: PodVolume, tmp_path: Path) -> None:
    """Only root can have put it there; its target does not become the pod's."""
    directory(volume).parent.mkdir(parents=True)
    directory(volume).symlink_to(tmp_path)
    with pytest.raises(NotADirectoryError, match="is not a directory"):
        await empty_dir.TYPE.mount(volume)


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CountedDisk:
    """Return a disk with project quotas, which the volumes lie on."""
    found = CountedDisk(tmp_path / "kubelet/pods", tmp_path / "etc")
    found.put(monkeypatch)
    return found


@pytest.mark.parametrize(
    ("gate", "host_users", "counted"),
    [
        pytest.param(True, False, True, id="a-user-namespace"),
        pytest.param(True, None, False, id="the-nodes-users"),
        pytest.param(False, False, False, id="the-gate-is-off"),
    ],
)
async def test_a_project_quota(
    tmp_path: Path, disk: CountedDisk, gate: bool, host_users: bool | None, counted: bool
) -> None:
    """It is there as long as the volume is, also for one that was found; made and removed twice."""
    spec: PodJson = {} if host_users is None else {"hostUsers": host_users}
    async with volume_services(tmp_path, monitors_quotas=gate) as services:
        source = {"sizeLimit": "1Mi"}
        volume = PodVolume(PodKey("default", "web", "uid-1"), "data", source, pod("", **spec), services)
        folder = directory(volume)
        for found in (False, True):
            assert (await empty_dir.TYPE.mount(volume)).found is found
            assert (f":{folder}\n" in disk.lines()[0]) is counted
            assert (folder.stat().st_ino in disk.projects) is counted
        for _ in range(2):
            await empty_dir.TYPE.unmount(volume)
            assert disk.lines() == ("", "")
            assert not folder.exists()


async def test_a_project_quota_that_cannot_be_assigned(tmp_path: Path, disk: CountedDisk) -> None:
    """The volume is not mounted, as by the kubelet; the next try finds it."""
    async with volume_services(tmp_path, monitors_quotas=True) as services:
        volume = PodVolume(PodKey("default", "web", "uid-1"), "data", {}, pod("", hostUsers=False), services)
        disk.fails = "set_limit"
        with pytest.raises(VolumeFailed, match=r"^assign quota FAILED .*Input/output error"):
            await empty_dir.TYPE.mount(volume)
        disk.fails = ""
        assert (await empty_dir.TYPE.mount(volume)).found
        assert f":{directory(volume)}\n" in disk.lines()[0]


async def test_a_quota_is_given_back_when_the_gate_is_off_again(tmp_path: Path, disk: CountedDisk) -> None:
    """The kubelet leaves it."""
    for gate in (True, False):
        async with volume_services(tmp_path, monitors_quotas=gate) as services:
            volume = PodVolume(PodKey("default", "web", "uid-1"), "data", {}, pod("", hostUsers=False), services)
            await (empty_dir.TYPE.mount(volume) if gate else empty_dir.TYPE.unmount(volume))
            assert (disk.lines() != ("", "")) is gate


async def test_files_that_cannot_be_written_do_not_hold_up_the_removal(tmp_path: Path, disk: CountedDisk) -> None:
    """The next volume that gets a quota gives this one's back."""
    async with volume_services(tmp_path, monitors_quotas=True) as services:
        volume = PodVolume(PodKey("default", "web", "uid-1"), "data", {}, pod("", hostUsers=False), services)
        await empty_dir.TYPE.mount(volume)
        names = disk.etc / "projid"
        names.unlink()
        names.symlink_to(tmp_path)
        await empty_dir.TYPE.unmount(volume)
        assert not directory(volume).exists()
        names.unlink()
        other = replace(volume, name="other")
        await empty_dir.TYPE.mount(other)
        assert disk.lines()[0].count("\n") == 1
