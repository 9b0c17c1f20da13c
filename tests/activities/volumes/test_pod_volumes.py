"""Are a pod's volumes mounted and unmounted independently, also repeatedly, after a crash and late?"""

import asyncio
import os
import socket
import stat
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.node_services import NodeServices
from activities.objects.objects import ObjectKind
from activities.volumes import pod_volumes
from activities.volumes.plugin.table import VOLUME_PLUGINS
from activities.volumes.plugin.volume_type import (
    Mounted,
    NotAttached,
    NotProcessed,
    PodVolume,
    Step,
    VolumeFailed,
    failed_at,
)
from activities.volumes.pod_volumes import VolumeActivities
from activities.volumes.types.host_path import check
from proto.cri.v1 import api_pb2 as cri
from proto.temporal.activities.volumes import MountedVolumes, MountVolumes, UnmountVolumes
from proto.temporal.mounted import MountedVolume
from proto.temporal.pod import PodJson, PodKey
from tests.activities.stored_objects import ObjectsInMemory
from tests.activities.volume_node import volume_services
from workflows.decide.manifest.fields.field_kinds import Support
from workflows.decide.manifest.fields.supported_cluster import VOLUME_OF_API
from workflows.decide.manifest.fields.supported_volumes import VOLUME

POD = PodKey("default", "web", "uid-1")
SPEC: PodJson = {"metadata": {"name": "web", "namespace": "default", "uid": "uid-1"}, "spec": {}}
DATA = {"name": "data", "emptyDir": {}}


@pytest.fixture
async def services(tmp_path: Path) -> AsyncIterator[NodeServices]:
    """Return a node whose runtime is not used."""
    async with volume_services(tmp_path) as made:
        yield made


async def mount(services: NodeServices, *volumes: PodJson, **spec: Any) -> MountedVolumes:
    """Mount volumes."""
    request = MountVolumes(POD, volumes, {**SPEC, "spec": spec})
    return await ActivityEnvironment().run(VolumeActivities(services).mount_volumes, request)


async def unmount(services: NodeServices, *volumes: PodJson) -> None:
    """Unmount them."""
    await ActivityEnvironment().run(VolumeActivities(services).unmount_volumes, UnmountVolumes(POD, volumes, SPEC))


def folder(services: NodeServices) -> Path:
    """Return the path of the emptyDir `data`."""
    return services.settings.root_dir / "pods/uid-1/volumes/kubernetes.io~empty-dir/data"


async def test_an_empty_dir_is_made_once(services: NodeServices) -> None:
    """At the kubelet's path, writable for all; found the second time with its content."""
    before = os.umask(0o077)
    try:
        first = await mount(services, DATA)
    finally:
        os.umask(before)
    (folder(services) / "file").write_text("kept")
    second = await mount(services, DATA)
    assert first.volumes == (MountedVolume("data", str(folder(services)), selinux_relabel=True),)
    assert (first.found, second.found) == ((), ("data",))
    assert stat.S_IMODE(folder(services).stat().st_mode) == 0o777
    assert (folder(services) / "file").read_text() == "kept"


def at(step: Step) -> VolumeFailed:
    """Fail at a step."""
    return failed_at(step, "two", "pv")


async def test_an_empty_dir_goes_with_its_pod(services: NodeServices) -> None:
    """With its content; repeated, and for a pod without one, it does nothing."""
    await mount(services, DATA)
    (folder(services) / "file").write_text("gone")
    for _ in range(2):
        await unmount(services, DATA)
        assert not folder(services).exists()


async def test_a_volume_that_fails_leaves_the_others_mounted(services: NodeServices) -> None:
    """The message lists every failure in the kubelet's words."""
    bad = {"name": "bad", "hostPath": {"path": "/nowhere", "type": "Directory"}}
    with pytest.raises(ApplicationError) as refused:
        await mount(services, bad, DATA)
    assert refused.value.type == "FailedMount"
    assert refused.value.non_retryable
    expected = 'MountVolume.SetUp failed for volume "bad" : hostPath type check failed: /nowhere is not a directory'
    assert refused.value.message == expected
    assert folder(services).is_dir()


def test_a_block_device_is_mapped_not_mounted(services: NodeServices) -> None:
    """In the kubelet's words, by how a container uses the volume."""
    containers = [{"name": "main", "volumeMounts": [{"name": "files"}], "volumeDevices": [{"name": "disk"}]}]
    found = [PodVolume(POD, name, {}, {"spec": {"containers": containers}}, services) for name in ("files", "disk")]
    message = pod_volumes.failure_message(pod_volumes._mounting, found, [VolumeFailed("one"), VolumeFailed("two")])
    assert message == (
        'MountVolume.SetUp failed for volume "files" : one; MapVolume.SetUpDevice failed for volume "disk" : two'
    )


@pytest.mark.parametrize(
    ("failures", "message"),
    [
        pytest.param([None, None], "", id="none"),
        pytest.param(
            [NotAttached("one"), at(Step.DEVICE)],
            'MountVolume.WaitForAttach failed for volume "files" : one; MapVolume.SetUpDevice failed for volume "pv" : two',
            id="attached-staged",
        ),
        pytest.param(
            [at(Step.DEVICE), at(Step.PUBLISH)],
            'MountVolume.MountDevice failed for volume "pv" : two; MapVolume.MapPodDevice failed for volume "pv" : two',
            id="staged-published",
        ),
        pytest.param(
            [at(Step.AFFINITY), at(Step.AFFINITY)],
            'MountVolume.NodeAffinity check failed for volume "pv" : two; '
            'MapVolume.NodeAffinity check failed for volume "pv" : two',
            id="for-other-nodes",
        ),
        pytest.param(
            [at(Step.EXPAND), at(Step.EXPAND)],
            'MountVolume.Setup failed while expanding volume for volume "pv" : two; '
            'MapVolume.MarkVolumeAsMounted failed while expanding volume for volume "pv" : two',
            id="expanded",
        ),
        pytest.param(
            [NotAttached("one"), NotProcessed("no claim")],
            'MountVolume.WaitForAttach failed for volume "files" : one; Unable to attach or mount volumes: '
            "unmounted volumes=[disk files], unattached volumes=[files], failed to process volumes=[disk]: no claim",
            id="not-processed",
        ),
        pytest.param(
            [NotProcessed("one"), NotProcessed("two")],
            "Unable to attach or mount volumes: unmounted volumes=[disk files], unattached volumes=[], "
            "failed to process volumes=[disk files]: one; two",
            id="nothing-processed",
        ),
    ],
)
def test_at_what_volumes_fail(services: NodeServices, failures: list[Exception | None], message: str) -> None:
    """operation_generator.go, volume_manager.go WaitForAttachAndMount: files, and a device."""
    containers = [{"name": "main", "volumeMounts": [{"name": "files"}], "volumeDevices": [{"name": "disk"}]}]
    found = [PodVolume(POD, name, {}, {"spec": {"containers": containers}}, services) for name in ("files", "disk")]
    assert pod_volumes.mount_failures(found, failures) == message


async def test_a_volume_becomes_the_groups_once_and_to_the_end(
    services: NodeServices, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the worker dies before the end, the next mount walks the volume again; a completed one is not walked again."""
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared/file").write_text("")
    odd = Odd(path=tmp_path / "shared")
    monkeypatch.setattr(pod_volumes, "volume_type", lambda _: odd)
    group = {"securityContext": {"fsGroup": 4321}}
    with monkeypatch.context() as patched:
        patched.setattr(pod_volumes, "apply_fs_group", killed)
        with pytest.raises(ZeroDivisionError):
            await mount(services, DATA, **group)
    odd.found = True
    await mount(services, DATA, **group)
    assert (tmp_path / "shared/file").stat().st_gid == 4321
    os.chown(tmp_path / "shared/file", 0, 0)
    await mount(services, DATA, **group)
    assert (tmp_path / "shared/file").stat().st_gid == 0
    odd.found = False
    await mount(services, DATA, **group)
    assert (tmp_path / "shared/file").stat().st_gid == 4321


def killed(*_: object, **__: object) -> None:
    """Die at this point."""
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("asked", "pod_class", "expected"),
    [
        pytest.param(True, "", True, id="the-runtimes-own-handler"),
        pytest.param(True, "slow", False, id="the-handler-of-the-pods-class"),
        pytest.param(False, "", False, id="nobody-asks"),
    ],
)
async def test_whether_a_mount_can_be_read_only_with_all_below(
    services: NodeServices,
    monkeypatch: pytest.MonkeyPatch,
    asked: bool,
    pod_class: str,
    expected: bool,
) -> None:
    """By the features of the pod's runtime handler."""
    able = cri.RuntimeHandlerFeatures(recursive_read_only_mounts=True)
    handlers = [cri.RuntimeHandler(name="", features=able), cri.RuntimeHandler(name="slow-handler")]
    objects = ObjectsInMemory()
    objects.put(ObjectKind.RUNTIME_CLASSES, "slow", {"handler": "slow-handler"})

    async def abilities() -> cri.StatusResponse:
        return cri.StatusResponse(runtime_handlers=handlers)

    monkeypatch.setattr(services.runtime, "abilities", abilities)
    spec = {"runtimeClassName": pod_class} if pod_class else {}
    request = MountVolumes(POD, (DATA,), {**SPEC, "spec": spec}, asks_recursive_read_only=asked)
    made = VolumeActivities(replace(services, objects=objects))
    [volume] = (await ActivityEnvironment().run(made.mount_volumes, request)).volumes
    assert volume.recursive_read_only is expected


async def test_a_defect_is_not_told_as_a_failed_mount(services: NodeServices, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is raised unchanged."""
    monkeypatch.setattr(pod_volumes, "volume_type", lambda _: Odd(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        await mount(services, DATA)


async def test_a_mount_that_hangs_is_given_up_when_its_pod_goes(
    services: NodeServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says so, and the volumes can be unmounted."""
    hanging = Odd()
    monkeypatch.setattr(pod_volumes, "volume_type", lambda _: hanging)
    services.terminating.step_grace = timedelta(milliseconds=10)
    waiting = asyncio.create_task(mount(services, DATA))
    await hanging.reached.wait()
    services.terminating.set(POD.uid, terminating=True)
    with pytest.raises(ApplicationError, match=r"given up 0\.01 s after the pod began to terminate"):
        await waiting
    await unmount(services, DATA)


class Odd:
    """A volume type that fails, has a path, or hangs while mounting."""

    def __init__(self, error: Exception | None = None, path: Path | None = None) -> None:
        self.error, self.path, self.found = error, path, False
        self.reached = asyncio.Event()

    async def mount(self, volume: PodVolume) -> Mounted:
        """Fail or hang."""
        self.reached.set()
        if self.error:
            raise self.error
        if self.path is None:
            await asyncio.Event().wait()
        return Mounted(MountedVolume(volume.name, str(self.path)), self.found, needs_fs_group=True)

    async def unmount(self, volume: PodVolume) -> None:
        """Do nothing."""


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Path]:
    """Make one file of each type."""
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to("directory")
    (tmp_path / "dangling").symlink_to("nowhere")
    os.mknod(tmp_path / "char", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    os.mknod(tmp_path / "block", 0o600 | stat.S_IFBLK, os.makedev(7, 0))
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        yield tmp_path


WHAT = {
    "Directory": "directory",
    "DirectoryOrCreate": "directory",
    "File": "file",
    "FileOrCreate": "file",
    "Socket": "socket file",
    "CharDevice": "character device",
    "BlockDevice": "block device",
}
FITS = {
    ("Directory", "directory"),
    ("Directory", "link"),
    ("DirectoryOrCreate", "directory"),
    ("DirectoryOrCreate", "link"),
    ("DirectoryOrCreate", "new"),
    ("File", "file"),
    ("FileOrCreate", "file"),
    ("FileOrCreate", "new"),
    ("Socket", "socket"),
    ("CharDevice", "char"),
    ("BlockDevice", "block"),
}


@pytest.mark.parametrize("there", ["directory", "file", "link", "char", "block", "fifo", "socket", "new"])
@pytest.mark.parametrize("kind", WHAT)
def test_host_path_types(tree: Path, kind: str, there: str) -> None:
    """Each type accepts its own kind of file and no other (pkg/volume/hostpath/host_path_test.go TestOSFileTypeChecker)."""
    path = tree / there
    if (kind, there) in FITS:
        check(path, kind)
        assert path.exists()
    else:
        with pytest.raises(VolumeFailed) as refused:
            check(path, kind)
        assert str(refused.value) == f"hostPath type check failed: {path} is not a {WHAT[kind]}"


def test_host_path_of_no_type_is_not_looked_at(tree: Path) -> None:
    """Nothing is created or refused: the runtime creates a missing folder."""
    for there in ("new", "fifo", "dangling"):
        check(tree / there, "")
    assert not (tree / "new").exists()


def test_what_host_path_makes(tree: Path) -> None:
    """A folder with its parents, a file only in an existing folder."""
    check(tree / "a/b", "DirectoryOrCreate")
    check(tree / "a/file", "FileOrCreate")
    assert stat.S_IMODE((tree / "a/b").stat().st_mode) == 0o755
    assert stat.S_IMODE((tree / "a/file").stat().st_mode) == 0o644
    with pytest.raises(FileNotFoundError):
        check(tree / "none/file", "FileOrCreate")


async def test_a_host_path_stays_as_it_is(services: NodeServices, tree: Path) -> None:
    """With any fsGroup, and when the pod is removed."""
    (tree / "directory/file").write_text("the node's")
    before = (tree / "directory").stat()
    volume = {"name": "host", "hostPath": {"path": str(tree / "directory"), "type": "Directory"}}
    mounted = await mount(services, volume, securityContext={"fsGroup": 1234})
    assert mounted.volumes == (MountedVolume("host", str(tree / "directory")),)
    await unmount(services, volume)
    after = (tree / "directory").stat()
    assert (after.st_mode, after.st_gid) == (before.st_mode, before.st_gid)
    assert (tree / "directory/file").read_text() == "the node's"


def test_every_type_of_the_table_is_run() -> None:
    """The types that manifests and API pods may have are exactly those of the table."""
    tables = (VOLUME, VOLUME_OF_API)
    taken = {name for one in tables for name, field in one.items() if field.support is Support.RUNS} - {"name"}
    assert taken == {kind for kind, row in VOLUME_PLUGINS.items() if row.own}


async def test_a_volume_of_a_type_that_this_version_lacks(services: NodeServices) -> None:
    """Such a pod was refused and nothing is mounted, so it can be deleted."""
    unknown = {"name": "disk", "flexVolume": {"driver": "example.com/x"}}
    with pytest.raises(ApplicationError, match="no volume plugin matched"):
        await mount(services, unknown)
    await mount(services, DATA)
    await unmount(services, DATA, unknown)
    assert not folder(services).exists()


async def test_a_mounted_volume_of_a_type_that_this_version_lacks(
    services: NodeServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later version mounted it: it is not taken for unmounted."""
    mounted = services.settings.root_dir / "pods/uid-1/volumes/example.com~x/disk"
    monkeypatch.setattr(pod_volumes, "mounts_below", lambda _: [str(mounted)])
    with pytest.raises(ApplicationError, match="no volume plugin matched"):
        await unmount(services, {"name": "disk", "flexVolume": {"driver": "example.com/x"}})
