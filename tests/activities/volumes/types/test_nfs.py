"""Is a server's folder mounted and unmounted by the node's programs, whatever happens to them?

mount.nfs is a fake that binds a local folder; there is no server.
"""

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from activities.node_services import NodeServices
from activities.volumes.plugin.persistent_type import PersistentVolume
from activities.volumes.plugin.volume_type import PodVolume, VolumeFailed
from activities.volumes.types import nfs
from proto.temporal.mounted import MountedVolume
from proto.temporal.pod import PodKey
from tests.activities.volumes.stand_ins import StandIns

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it mounts")

SOURCE = {"server": "nfs.example", "path": "/export"}


@pytest.fixture
def volume(services: NodeServices) -> PodVolume:
    """Return a volume of a pod."""
    return PodVolume(PodKey("default", "web", "uid-1"), "data", SOURCE, {"spec": {}}, services)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIns:
    """Put a mount.nfs on PATH that binds a folder."""
    made = StandIns(tmp_path / "bin")
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "file").write_text("from the server")
    made.put("mount.nfs", f'exec mount --bind {tmp_path}/export "$2"')
    monkeypatch.setenv("PATH", f"{made.folder}:{os.environ['PATH']}")
    return made


def target(volume: PodVolume) -> Path:
    """Return the kubelet's path."""
    return volume.services.settings.root_dir / "pods/uid-1/volumes/kubernetes.io~nfs/data"


async def test_it_is_mounted_once_and_unmounted(volume: PodVolume, programs: StandIns) -> None:
    """Found the second time; the server's files stay."""
    for found in (False, True):
        mounted = await nfs.TYPE.mount(volume)
        assert mounted.volume == MountedVolume("data", str(target(volume)))
        assert mounted.found is found
    assert (target(volume) / "file").read_text() == "from the server"
    assert programs.asked("mount.nfs") == [f"nfs.example:/export {target(volume)}"]
    for _ in range(2):
        await nfs.TYPE.unmount(volume)
        assert not target(volume).exists()
    assert (programs.folder.parent / "export" / "file").exists()


async def test_read_only_is_an_option_and_holds_for_every_mount(volume: PodVolume, programs: StandIns) -> None:
    """As the kubelet passes it."""
    mounted = await nfs.TYPE.mount(replace(volume, source={**SOURCE, "readOnly": True}))
    assert mounted.volume.read_only
    assert programs.asked("mount.nfs") == [f"nfs.example:/export {target(volume)} -o ro"]


async def test_a_persistent_volume_has_options_of_its_own(volume: PodVolume, programs: StandIns) -> None:
    """Sorted, without duplicates, with `ro` if the claim is read-only."""
    options = ("nfsvers=4.1", "hard", "hard")
    persistent = PersistentVolume(name="data", type="nfs", source=SOURCE, mount_options=options, read_only=True)
    await nfs.PERSISTENT.mount(volume, persistent)
    assert programs.asked("mount.nfs") == [f"nfs.example:/export {target(volume)} -o hard,nfsvers=4.1,ro"]
    await nfs.PERSISTENT.unmount(replace(volume, source={}), block=False)
    assert not target(volume).exists()


@pytest.mark.parametrize(
    "source",
    [
        pytest.param({"path": "/x"}, id="no-server"),
        pytest.param({"server": "s", "path": "x"}, id="relative"),
        pytest.param({"server": ["s"], "path": "/x"}, id="no-text"),
    ],
)
async def test_a_persistent_volume_that_makes_no_sense(volume: PodVolume, source: dict[str, Any]) -> None:
    """Without an API server it has not been validated."""
    with pytest.raises(VolumeFailed, match=r"PV data: spec\.nfs needs a server"):
        await nfs.PERSISTENT.mount(volume, PersistentVolume(name="data", type="nfs", source=source))


async def test_a_helper_that_fails_is_quoted_and_nothing_is_left(volume: PodVolume, programs: StandIns) -> None:
    """Exit code, arguments and output, as in the kubelet's message."""
    programs.put("mount.nfs", "echo access denied by server; exit 32")
    with pytest.raises(VolumeFailed) as failed:
        await nfs.TYPE.mount(volume)
    assert str(failed.value) == (
        "mount failed: exit status 32\nMounting command: mount.nfs\n"
        f"Mounting arguments: nfs.example:/export {target(volume)}\nOutput: access denied by server"
    )
    assert not target(volume).exists()


async def test_a_node_without_the_helper_is_told_what_to_install(
    volume: PodVolume, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its package."""
    monkeypatch.setattr("activities.execution.programs.shutil.which", lambda *_, **__: None)
    with pytest.raises(VolumeFailed, match=r"^mount failed: mount\.nfs is not on this node: install nfs-common"):
        await nfs.TYPE.mount(volume)


async def test_a_helper_that_hangs_is_killed_and_what_it_mounted_undone(
    volume: PodVolume, programs: StandIns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its server may have answered just then."""
    programs.put("mount.nfs", f'mount --bind {programs.folder.parent}/export "$2"; sleep 1000')
    monkeypatch.setattr(nfs, "_MOUNT_WITHIN", 0.5)
    with pytest.raises(VolumeFailed, match=r"mount\.nfs had not ended after 0\.5 s and was killed"):
        await nfs.TYPE.mount(volume)
    assert not target(volume).exists()


async def test_a_cancelled_mount_leaves_nothing(volume: PodVolume, programs: StandIns) -> None:
    """The pod is deleted while its server does not answer."""
    ready = programs.folder.parent / "ready"
    os.mkfifo(ready)
    programs.put("mount.nfs", f'mount --bind {programs.folder.parent}/export "$2"; echo > {ready}; sleep 1000')
    task = asyncio.create_task(nfs.TYPE.mount(volume))
    await asyncio.to_thread(ready.read_text)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not target(volume).exists()


@pytest.mark.usefixtures("programs")
async def test_a_busy_mount_stays_and_is_told(volume: PodVolume) -> None:
    """It is not forced: somebody writes there."""
    await nfs.TYPE.mount(volume)
    held = os.open(target(volume), os.O_RDONLY)
    try:
        with pytest.raises(VolumeFailed, match="unmount failed: exit status 32"):
            await nfs.TYPE.unmount(volume)
        assert (target(volume) / "file").exists()
    finally:
        os.close(held)
    await nfs.TYPE.unmount(volume)


async def test_an_unmount_that_does_not_answer_is_forced(
    volume: PodVolume, programs: StandIns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the kubelet's umount -f."""
    await nfs.TYPE.mount(volume)
    programs.put("umount", 'if [ "$1" = -f ]; then PATH=/usr/bin:/bin exec umount "$2"; else sleep 1000; fi')
    monkeypatch.setattr(nfs, "_UNMOUNT_WITHIN", 0.5)
    await nfs.TYPE.unmount(volume)
    assert programs.asked("umount") == [str(target(volume)), f"-f {target(volume)}"]
    assert not target(volume).exists()


@pytest.mark.parametrize(
    ("server", "source"),
    [
        pytest.param("nfs.example", "nfs.example:/p", id="a-name"),
        pytest.param("192.0.2.1", "192.0.2.1:/p", id="an-IPv4-address"),
        pytest.param("2001:db8::1", "[2001:db8::1]:/p", id="an-IPv6-address-in-brackets"),
    ],
)
def test_how_a_server_is_written(server: str, source: str) -> None:
    """As pkg/volume/nfs getServerFromSource does."""
    assert nfs.export(server, "/p") == source
