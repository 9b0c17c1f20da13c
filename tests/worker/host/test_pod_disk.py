"""Is for each limit measured what the kubelet measures, and nothing on other disks?"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from activities.clients.runtime import RuntimeClient
from activities.files import mounts
from activities.files.disk_use import used_bytes
from activities.images.image_pulls import ImagePulls
from activities.machine.cgroup_hierarchies import Hierarchies
from activities.machine.cgroups import Cgroups
from activities.node_services import NodeServices
from activities.settings.activity_settings import ActivitySettings
from activities.volumes.quotas.quotas import assign_quota
from proto.cri.v1 import api_pb2 as cri
from proto.kubernetes.resources.storage_limits import StorageLimits
from proto.pod_snapshot import ContainerSnapshot, PodSnapshot
from tests.activities.volumes.quotas.counted_disk import CountedDisk
from worker.host.pod_disk import PodDisk

MIB = 1024 * 1024
PODS = PodSnapshot("w", "n", "default", "web", "u", "file", "", "sync", sandbox_id="s0")


class Runtime(RuntimeClient):
    """Tells of containers, and where images lie."""

    def __init__(self, images: Path) -> None:
        self.images, self.layers = images, dict[str, int]()
        self.written: Path | None = None
        self.asked: list[str] = []

    async def list_container_stats(self, sandbox_id: str) -> Sequence[cri.ContainerStats]:
        """Tell of every container of the sandbox, whether it runs or not."""
        self.asked.append(sandbox_id)
        return [
            cri.ContainerStats(
                attributes=cri.ContainerAttributes(id=f"id-{name}", metadata=cri.ContainerMetadata(name=name)),
                writable_layer=cri.FilesystemUsage(used_bytes=cri.UInt64Value(value=used)) if used else None,
            )
            for name, used in self.layers.items()
        ]

    async def image_fs_info(self) -> cri.ImageFsInfoResponse:
        """Name the disks."""
        images, layers = (
            cri.FilesystemUsage(fs_id=cri.FilesystemIdentifier(mountpoint=str(one)))
            for one in (self.images, self.written or self.images)
        )
        return cri.ImageFsInfoResponse(image_filesystems=[images], container_filesystems=[layers])


@dataclass
class OnePod:
    """A pod on a disk, and what its containers have written."""

    directory: Path
    containers: dict[str, ContainerSnapshot] = field(default_factory=dict)
    monitors_quotas: bool = False

    def __post_init__(self) -> None:
        settings = ActivitySettings(
            root_dir=self.directory / "kubelet",
            pod_logs_dir=self.directory / "logs",
            monitors_quotas=self.monitors_quotas,
        )
        settings.root_dir.mkdir()
        self.runtime = Runtime(self.directory)
        self.services = NodeServices(
            settings=settings,
            runtime=self.runtime,
            cgroups=Cgroups(hierarchies=Hierarchies(v2=None, v1={})),
            pulls=ImagePulls(),
        )
        self.folder = settings.root_dir / "pods/u"

    def writes(self, path: str, megabytes: int = 1) -> Path:
        """Write a file below the pod's folder."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * megabytes * MIB)
        return file

    def runs(self, name: str, layer: int = 0, logs: int = 0, state: str = "CONTAINER_RUNNING") -> None:
        """Add a container that has written so many megabytes."""
        self.containers[name] = ContainerSnapshot(f"id-{name}", state, 0)
        self.runtime.layers[name] = layer * MIB
        log = self.directory / "logs/default_web_u" / name / "0.log"
        log.parent.mkdir(parents=True)
        log.write_bytes(b"x" * logs * MIB)

    def disk(self, limits: StorageLimits) -> PodDisk:
        """Judge it by these limits."""

        async def count(folder: Path, is_enough: Callable[[int], bool]) -> int:
            return used_bytes(folder, is_enough, 60)

        return PodDisk(self.services, replace(PODS, containers=self.containers), limits, count)

    async def found(self, limits: StorageLimits) -> tuple[str, str] | None:
        """Say which volume or container holds too much; neither: the pod."""
        disk = self.disk(limits)
        hint = await disk.volume() or await disk.whole() or await disk.container()
        return (hint.empty_dir, hint.container) if hint else None


@pytest.fixture
def web(tmp_path: Path) -> OnePod:
    """Return a pod."""
    return OnePod(tmp_path)


def layer(web: OnePod) -> None:
    """In a container."""
    web.runs("web", layer=4)


def logs(web: OnePod) -> None:
    """To logs, also rotated ones."""
    web.runs("web", logs=2)
    (web.directory / "logs/default_web_u/web/0.log.20261121-120000").write_bytes(b"x" * 2 * MIB)


def empty_dirs(web: OnePod) -> None:
    """Into two volumes that have no limits of their own."""
    web.writes("volumes/kubernetes.io~empty-dir/a/file", 2)
    web.writes("volumes/kubernetes.io~empty-dir/b/file", 2)


def config_map(web: OnePod) -> None:
    """As a ConfigMap."""
    web.writes("volumes/kubernetes.io~configmap/conf/file", 4)


def hosts(web: OnePod) -> None:
    """Into the hosts file that it mounts."""
    web.writes("etc-hosts", 4)


def message(web: OnePod) -> None:
    """Into the file of a termination message, which the kubelet does not count."""
    web.writes("containers/web/00000000", 4)


def little_by_little(web: OnePod) -> None:
    """A bit of everything."""
    web.runs("web", layer=1, logs=1)
    web.runs("init", layer=0, logs=0, state="CONTAINER_EXITED")
    web.writes("volumes/kubernetes.io~empty-dir/a/file")
    web.writes("volumes/kubernetes.io~configmap/conf/file")


def secret(web: OnePod) -> None:
    """What lies in memory on a node is not the disk's."""
    web.writes("volumes/kubernetes.io~secret/keys/file", 4)


def host_path(web: OnePod) -> None:
    """Nor is what is somebody else's."""
    web.writes("volumes/kubernetes.io~nfs/far/file", 4)


def ended(web: OnePod) -> None:
    """Nor what a container has left that ended."""
    web.runs("web", layer=4, state="CONTAINER_EXITED")


@pytest.mark.parametrize(
    ("write", "found"),
    [
        pytest.param(one, ("", "") if counts else None, id=one.__name__)
        for one, counts in (
            (layer, True),
            (logs, True),
            (empty_dirs, True),
            (config_map, True),
            (hosts, True),
            (message, True),
            (little_by_little, True),
            (secret, False),
            (host_path, False),
            (ended, False),
        )
    ],
)
async def test_what_counts_for_the_pod(
    web: OnePod, write: Callable[[OnePod], None], found: tuple[str, str] | None
) -> None:
    """As calcEphemeralStorage sums it."""
    write(web)
    assert await web.found(StorageLimits(pod="3Mi")) == found
    assert await web.found(StorageLimits(pod="5Mi")) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts")
@pytest.mark.parametrize("gate", [True, False])
async def test_a_volume_in_memory_is_not_the_disks(tmp_path: Path, gate: bool) -> None:
    """Though it lies among the others; also where project quotas are asked."""
    web = OnePod(tmp_path, monitors_quotas=gate)
    folder = web.folder / "volumes/kubernetes.io~empty-dir/fast"
    folder.mkdir(parents=True)
    mounts.mount("tmpfs", folder, "tmpfs")
    try:
        web.writes("volumes/kubernetes.io~empty-dir/fast/file", 4)
        assert await web.found(StorageLimits(pod="3Mi")) is None
    finally:
        mounts.unmount(folder)


async def test_a_message_counts_for_its_container(web: OnePod) -> None:
    """A container could fill the disk with it, unseen."""
    web.runs("web")
    web.writes("containers/web/00000000", 3)
    assert await web.found(StorageLimits(containers={"web": "2Mi"})) == ("", "web")


@pytest.mark.parametrize(
    ("layer_size", "log_size", "elsewhere", "found"),
    [
        pytest.param(3, 0, False, ("", "web"), id="its-root-file-system"),
        pytest.param(0, 3, False, ("", "web"), id="its-logs"),
        pytest.param(1, 2, False, ("", "web"), id="both"),
        pytest.param(1, 0, False, None, id="below"),
        pytest.param(3, 0, True, None, id="images-have-a-disk-of-their-own"),
        pytest.param(0, 3, True, ("", "web"), id="then-logs-count-still"),
    ],
)
async def test_what_counts_for_a_container(
    web: OnePod, layer_size: int, log_size: int, elsewhere: bool, found: tuple[str, str] | None
) -> None:
    """As containerEphemeralStorageLimitEviction adds it up; another's without a limit does not count."""
    web.runs("web", layer_size, log_size)
    web.runs("other", 9, 0)
    if elsewhere:
        web.runtime.images = Path("/proc")
    assert await web.found(StorageLimits(containers={"web": "2Mi"})) == found


@pytest.mark.parametrize(("images", "written"), [(None, Path("/proc")), (Path("/proc"), None)])
async def test_a_split_disk_counts_as_one_of_the_images(web: OnePod, images: Path | None, written: Path | None) -> None:
    """As HasDedicatedImageFs answers, wherever of both the writable layers are."""
    web.runs("web", 3, 0)
    web.runtime.images, web.runtime.written = images or web.directory, written or web.directory
    assert await web.found(StorageLimits(containers={"web": "2Mi"})) is None


async def test_the_order_is_the_kubelets(web: OnePod) -> None:
    """Volumes, the pod, its containers."""
    web.runs("web", layer=4)
    web.writes("volumes/kubernetes.io~empty-dir/a/file", 4)
    volumes, of_container = {"a": "1Mi"}, {"web": "1Mi"}
    assert await web.found(StorageLimits(volumes, "1Mi", of_container)) == ("a", "")
    assert await web.found(StorageLimits({}, "1Mi", of_container)) == ("", "")
    assert await web.found(StorageLimits({}, "64Mi", of_container)) == ("", "web")


async def test_the_runtime_is_asked_only_when_it_must_be(web: OnePod) -> None:
    """Not for volumes, not while nothing runs, and not twice in one look."""
    await web.found(StorageLimits({"a": "1Mi"}))
    await web.found(StorageLimits({}, "1Mi", {"web": "1Mi"}))
    assert web.runtime.asked == []
    web.runs("web")
    await web.found(StorageLimits({}, "1Mi", {"web": "1Mi"}))
    assert web.runtime.asked == ["s0"]


@pytest.mark.parametrize("gate", [True, False])
async def test_a_volume_is_measured_by_its_quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gate: bool) -> None:
    """Which counts what walking does not see, here a file of its project elsewhere; a volume without one is walked."""
    web = OnePod(tmp_path, monitors_quotas=gate)
    disk = CountedDisk(tmp_path, tmp_path / "etc")
    disk.put(monkeypatch)
    web.writes("volumes/kubernetes.io~empty-dir/plain/file", 1)
    volume = web.writes("volumes/kubernetes.io~empty-dir/data/file", 1).parent
    assign_quota(volume, limited=True)
    unseen = tmp_path / "unlinked"
    unseen.write_bytes(b"x" * 4 * MIB)
    disk.projects[unseen.stat().st_ino] = disk.projects[volume.stat().st_ino]
    assert await web.found(StorageLimits({"data": "4Mi"})) == (("data", "") if gate else None)
    assert await web.found(StorageLimits({"plain": "4Mi"})) is None
    assert await web.found(StorageLimits(pod="5Mi")) == (("", "") if gate else None)
    assert await web.found(StorageLimits(pod="7Mi")) is None
