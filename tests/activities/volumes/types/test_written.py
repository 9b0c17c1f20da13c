"""Are the volumes whose files the node writes mounted, refreshed and removed, in the kubelet's places and nowhere else?"""

import asyncio
import base64
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.clients.runtime import RuntimeClient
from activities.clients.start_limit import StartLimit
from activities.files.mounts import mount_at, mounts_below, unmount
from activities.images.image_pulls import ImagePulls
from activities.machine.cgroups import Cgroups
from activities.node_services import NodeServices
from activities.objects.objects import ObjectKind
from activities.settings.activity_settings import ActivitySettings
from activities.volumes.pod_volumes import VolumeActivities
from proto.kubernetes.resources.quantity import parse_quantity
from proto.temporal.activities.volumes import MountedVolumes, MountVolumes, UnmountVolumes
from proto.temporal.pod import PodJson, PodKey
from tests.activities.stored_objects import ObjectsInMemory

POD = PodKey("default", "web", "uid-1")
CANARY = "hunter2-canary"
CONFIG = {"name": "config", "configMap": {"name": "cm", "defaultMode": 0o644}}
SECRET = {"name": "keys", "secret": {"secretName": "db", "defaultMode": 0o400}}
LABELS = {"path": "labels", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.labels"}}
DOWNWARD = {"name": "about", "downwardAPI": {"defaultMode": 0o644, "items": [LABELS]}}
PROJECTED = {
    "name": "all",
    "projected": {"defaultMode": 0o440, "sources": [{"secret": {"name": "db"}}, {"configMap": {"name": "cm"}}]},
}
PLUGINS = {"config": "configmap", "keys": "secret", "about": "downward-api", "all": "projected"}


@pytest.fixture
def objects() -> ObjectsInMemory:
    """Return a ConfigMap and a Secret."""
    kept = ObjectsInMemory()
    kept.put(ObjectKind.CONFIG_MAPS, "cm", {"data": {"app.conf": "port=80"}})
    kept.put(ObjectKind.SECRETS, "db", {"data": {"password": base64.b64encode(CANARY.encode()).decode()}})
    return kept


@pytest.fixture
async def services(tmp_path: Path, objects: ObjectsInMemory) -> NodeServices:
    """Return a node of the test's own, whose runtime nobody asks."""
    return NodeServices(
        settings=ActivitySettings(
            root_dir=tmp_path / "kubelet",
            pod_logs_dir=tmp_path / "logs",
            allocatable={"memory": parse_quantity("1Gi")},
        ),
        runtime=RuntimeClient("unix:///nowhere", StartLimit(1)),
        cgroups=Cgroups("/nowhere"),
        pulls=ImagePulls(),
        objects=objects,
    )


@pytest.fixture(autouse=True)
def nothing_left(tmp_path: Path) -> Iterator[None]:
    """Undo what a test that failed has left mounted."""
    yield
    left = mounts_below(tmp_path)
    for point in left:
        unmount(Path(point))


async def mount(
    services: NodeServices, *volumes: PodJson, metadata: PodJson | None = None, **spec: Any
) -> MountedVolumes:
    """Mount volumes."""
    pod = {"metadata": {"name": "web", "namespace": "default", "uid": "uid-1"} | (metadata or {}), "spec": spec}
    return await ActivityEnvironment().run(VolumeActivities(services).mount_volumes, MountVolumes(POD, volumes, pod))


async def undo(services: NodeServices, *volumes: PodJson) -> None:
    """Unmount them."""
    request = UnmountVolumes(POD, volumes, {"metadata": {}, "spec": {}})
    await ActivityEnvironment().run(VolumeActivities(services).unmount_volumes, request)


def place(services: NodeServices, volume: str) -> Path:
    """Say where the kubelet keeps a volume."""
    return services.settings.root_dir / f"pods/uid-1/volumes/kubernetes.io~{PLUGINS[volume]}/{volume}"


async def test_each_type_in_its_place_with_its_files(services: NodeServices) -> None:
    """Read-only to the pod; what is not a ConfigMap lies in memory; the versions of the objects are answered."""
    answer = await mount(services, CONFIG, SECRET, DOWNWARD, PROJECTED, metadata={"labels": {"app": "web"}})
    assert [(one.path, one.read_only, one.selinux_relabel) for one in answer.volumes] == [
        (str(place(services, name)), True, True) for name in ("config", "keys", "about", "all")
    ]
    contents = {
        name: {p.name: p.read_text() for p in place(services, name).glob("*[!.]*") if p.is_file()} for name in PLUGINS
    }
    both = {"app.conf": "port=80", "password": CANARY}
    assert contents == {
        "config": {"app.conf": "port=80"},
        "keys": {"password": CANARY},
        "about": {"labels": 'app="web"'},
        "all": both,
    }
    mounts = {name: mount_at(place(services, name)) for name in PLUGINS}
    assert {name: one.kind if one else None for name, one in mounts.items()} == {
        "config": None,
        "keys": "tmpfs",
        "about": "tmpfs",
        "all": "tmpfs",
    }
    modes = {name: oct(stat.S_IMODE(place(services, name).stat().st_mode)) for name in PLUGINS}
    assert modes == {"config": "0o777", "keys": "0o1777", "about": "0o1777", "all": "0o1777"}  # tmpfs is sticky
    assert stat.S_IMODE((place(services, "keys") / "password").stat().st_mode) == 0o400
    assert answer.objects == {"configmaps/cm": "1", "secrets/db": "1"}
    assert CANARY not in repr(answer)
    await undo(services, CONFIG, SECRET, DOWNWARD, PROJECTED)


async def test_mounted_again_they_are_found_and_changed_they_are_refreshed(
    services: NodeServices, objects: ObjectsInMemory
) -> None:
    """Only what changed is written; a mount is made once."""
    first = await mount(services, CONFIG, SECRET)
    assert first.found == ()
    before = [place(services, name).joinpath("..data").readlink() for name in ("config", "keys")]
    assert set((await mount(services, CONFIG, SECRET)).found) == {"config", "keys"}
    assert [place(services, name).joinpath("..data").readlink() for name in ("config", "keys")] == before
    objects.put(ObjectKind.CONFIG_MAPS, "cm", {"data": {"app.conf": "port=81", "more": ""}})
    third = await mount(services, CONFIG, SECRET)
    assert third.found == ("keys",)
    assert third.objects == {"configmaps/cm": "2", "secrets/db": "1"}
    assert (place(services, "config") / "app.conf").read_text() == "port=81"
    assert len(mounts_below(services.settings.root_dir)) == 1
    await undo(services, CONFIG, SECRET)


async def test_they_go_with_their_pod(services: NodeServices) -> None:
    """Memory and folders, a second time and halfway too."""
    await mount(services, CONFIG, SECRET)
    unmount(place(services, "keys"))  # a try that ended between unmounting and removing
    for _ in range(2):
        await undo(services, CONFIG, SECRET)
        assert mounts_below(services.settings.root_dir) == []
        assert not place(services, "keys").exists()
        assert not place(services, "config").exists()


@pytest.mark.parametrize(
    ("volume", "words"),
    [
        pytest.param({"name": "v", "configMap": {"name": "gone"}}, 'configmap "gone" not found', id="no-config-map"),
        pytest.param({"name": "v", "secret": {"secretName": "gone"}}, 'secret "gone" not found', id="no-secret"),
        pytest.param(
            {"name": "v", "configMap": {"name": "cm", "items": [{"key": "x", "path": "y"}]}},
            "configmap references non-existent config key: x (ConfigMap default/cm)",
            id="no-key",
        ),
        pytest.param({"name": "v", "secret": {"secretName": "open"}}, "has mode 0644", id="a-refused-secret"),
        pytest.param(
            {"name": "v", "secret": {"secretName": "open", "optional": True}}, "has mode 0644", id="an-optional-one-too"
        ),
        pytest.param(
            {"name": "v", "projected": {"sources": [{"configMap": {"name": "gone"}}, {"secret": {"name": "db"}}]}},
            'configmap "gone" not found',
            id="a-projection",
        ),
    ],
)
async def test_what_is_missing_fails_the_mount_in_the_kubelets_words(
    services: NodeServices, objects: ObjectsInMemory, volume: PodJson, words: str
) -> None:
    """Nothing is mounted for it, and nothing of a value is told."""
    objects.refused[(ObjectKind.SECRETS, "default", "open")] = 'secret "open" is not taken: it has mode 0644'
    with pytest.raises(ApplicationError) as failed:
        await mount(services, volume)
    assert failed.value.type == "FailedMount"
    assert failed.value.message.startswith('MountVolume.SetUp failed for volume "v" : ')
    assert words in failed.value.message
    assert CANARY not in repr(failed.value)
    assert mounts_below(services.settings.root_dir) == []


async def test_an_optional_object_may_come_and_go(services: NodeServices, objects: ObjectsInMemory) -> None:
    """Empty, filled, empty; the version tells that it is absent."""
    volume = {"name": "config", "configMap": {"name": "late", "optional": True}}
    assert (await mount(services, volume)).objects == {"configmaps/late": ""}
    objects.put(ObjectKind.CONFIG_MAPS, "late", {"data": {"a": "b"}})
    assert (await mount(services, volume)).objects == {"configmaps/late": "1"}
    assert (place(services, "config") / "a").read_text() == "b"
    del objects.kept[(ObjectKind.CONFIG_MAPS, "default", "late")]
    await mount(services, volume)
    assert not (place(services, "config") / "a").is_symlink()


async def test_an_object_that_promised_not_to_change_is_marked(
    services: NodeServices, objects: ObjectsInMemory
) -> None:
    """So that nobody looks at it again."""
    objects.put(ObjectKind.CONFIG_MAPS, "cm", {"data": {"a": "b"}, "immutable": True})
    assert (await mount(services, CONFIG)).objects == {"configmaps/cm": "=2"}


async def test_the_pods_group_reads_its_secrets(services: NodeServices) -> None:
    """The group of fsGroup may read a file of mode 0400, and nobody else."""
    await mount(services, SECRET, CONFIG, securityContext={"fsGroup": 4242})
    for name, mode in {"password": 0o440, "..data/": 0o2755, ".": 0o3777}.items():
        found = (place(services, "keys") / name).stat()
        assert (name, found.st_gid, oct(stat.S_IMODE(found.st_mode))) == (name, 4242, oct(mode))
    assert (place(services, "config") / "app.conf").stat().st_gid == 4242
    await undo(services, SECRET, CONFIG)


async def test_a_mount_inside_a_volume_finds_its_folder(services: NodeServices) -> None:
    """The runtime could not make it in a read-only mount."""
    mounts = [{"name": "config", "mountPath": "/etc/app"}, {"name": "x", "mountPath": "/etc/app/run"}]
    await mount(services, CONFIG, containers=[{"name": "c", "volumeMounts": mounts}])
    assert (place(services, "config") / "run").is_dir()


async def test_a_key_that_is_a_path_reaches_no_file(services: NodeServices, objects: ObjectsInMemory) -> None:
    """Whatever a source lets pass."""
    objects.put(ObjectKind.CONFIG_MAPS, "cm", {"data": {"../../../../escaped": "x"}})
    with pytest.raises(ApplicationError, match="invalid path: must not contain"):
        await mount(services, CONFIG)
    assert not list(services.settings.root_dir.rglob("escaped*"))


async def test_a_config_map_of_a_mebibyte_is_written(services: NodeServices, objects: ObjectsInMemory) -> None:
    """In one piece."""
    objects.put(ObjectKind.CONFIG_MAPS, "cm", {"data": {"big": "x" * (1 << 20)}})
    await mount(services, CONFIG)
    assert (place(services, "config") / "big").stat().st_size == 1 << 20


async def test_the_memory_of_a_volume_is_bounded(services: NodeServices) -> None:
    """By what the node has for pods."""
    await mount(services, SECRET)
    found = mount_at(place(services, "keys"))
    assert found
    assert "size=1048576k" in found.super_options
    assert os.statvfs(place(services, "keys")).f_blocks * os.statvfs(place(services, "keys")).f_bsize == 1 << 30
    await undo(services, SECRET)


async def test_two_mounts_at_a_time_take_turns(services: NodeServices) -> None:
    """A late try beside its successor: one folder, and what either wrote is whole."""
    await asyncio.gather(*(mount(services, CONFIG, SECRET, PROJECTED) for _ in range(5)))
    for name in ("config", "keys", "all"):
        assert len([one for one in place(services, name).iterdir() if one.name.startswith("..2")]) == 1
    assert len(mounts_below(services.settings.root_dir)) == 2
    await undo(services, CONFIG, SECRET, PROJECTED)
