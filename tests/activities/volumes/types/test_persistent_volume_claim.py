"""Does a claim bring its volume, and is it unmounted by its record, whatever happened to the claim?"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.clients.api_server.api_server import ApiServer
from activities.clients.api_server.kubeconfig import Kubeconfig
from activities.clients.runtime import RuntimeClient
from activities.clients.start_limit import StartLimit
from activities.images.image_pulls import ImagePulls
from activities.machine.cgroups import Cgroups
from activities.node_services import NodeServices
from activities.objects.objects import ObjectKind
from activities.settings.activity_settings import ActivitySettings
from activities.volumes.plugin.persistent_type import PersistentVolume
from activities.volumes.plugin.volume_type import Mounted, PodVolume
from activities.volumes.pod_volumes import VolumeActivities
from activities.volumes.types import persistent_volume_claim as persistent_volumes
from proto.temporal.activities.volumes import MountedVolumes, MountVolumes, UnmountVolumes
from proto.temporal.mounted import MountedVolume
from proto.temporal.pod import PodJson, PodKey
from tests.activities.stored_objects import ObjectsInMemory

POD = PodKey("default", "web", "uid-1")
VOLUME = {"name": "data", "persistentVolumeClaim": {"claimName": "mine"}}
CLAIM = {"spec": {"volumeName": "pv1", "accessModes": ["ReadWriteOnce"]}}


@pytest.fixture
def objects() -> ObjectsInMemory:
    """Return the objects of the test's node."""
    return ObjectsInMemory()


@pytest.fixture
async def services(tmp_path: Path, objects: ObjectsInMemory) -> NodeServices:
    """Return a node for the test."""
    return NodeServices(
        settings=ActivitySettings(root_dir=tmp_path / "kubelet", pod_logs_dir=tmp_path / "logs"),
        runtime=RuntimeClient("unix:///nowhere", StartLimit(1)),
        cgroups=Cgroups("/nowhere"),
        pulls=ImagePulls(),
        objects=objects,
    )


def persistent(path: Path | str, **spec: Any) -> dict[str, Any]:
    """Return a hostPath volume that is bound to the claim."""
    reference = {"namespace": "default", "name": "mine"}
    source = {"path": str(path), "type": "Directory"}
    return {"spec": {"hostPath": source, "accessModes": ["ReadWriteOnce"], "claimRef": reference, **spec}}


def bind(objects: ObjectsInMemory, path: Path | str, **spec: Any) -> None:
    """Store a claim and its volume."""
    objects.put(ObjectKind.PERSISTENT_VOLUME_CLAIMS, "mine", CLAIM | {"spec": CLAIM["spec"] | spec})
    objects.put(ObjectKind.PERSISTENT_VOLUMES, "pv1", persistent(path))


async def mount(services: NodeServices, volume: PodJson = VOLUME) -> MountedVolumes:
    """Mount the volume."""
    spec = {"metadata": {"name": "web", "namespace": "default", "uid": "uid-1"}, "spec": {}}
    request = MountVolumes(POD, (volume,), spec)
    return await ActivityEnvironment().run(VolumeActivities(services).mount_volumes, request)


async def unmount(services: NodeServices) -> None:
    """Unmount it."""
    await ActivityEnvironment().run(VolumeActivities(services).unmount_volumes, UnmountVolumes(POD, (VOLUME,)))


@pytest.mark.parametrize("read_only", [False, True], ids=["writable", "read-only"])
async def test_a_claim_brings_the_path_of_its_volume(
    services: NodeServices, objects: ObjectsInMemory, tmp_path: Path, read_only: bool
) -> None:
    """With the pod's own name for the volume."""
    bind(objects, tmp_path)
    source = {"claimName": "mine", "readOnly": read_only}
    mounted = await mount(services, {"name": "data", "persistentVolumeClaim": source})
    assert mounted.volumes == (MountedVolume("data", str(tmp_path), read_only=read_only),)


async def test_a_claim_that_is_not_there_and_one_that_is_not_bound(
    services: NodeServices, objects: ObjectsInMemory, tmp_path: Path
) -> None:
    """The kubelet's words, and the pod goes on when both are there."""
    start = (
        "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[], failed to process volumes=[data]: "
        "error processing PVC default/mine: "
    )
    with pytest.raises(ApplicationError) as missing:
        await mount(services)
    assert missing.value.type == "FailedMount"
    assert missing.value.message == f'{start}failed to fetch PVC: persistentvolumeclaim "mine" not found'
    bind(objects, tmp_path, volumeName="")
    with pytest.raises(ApplicationError, match="PVC is not bound"):
        await mount(services)
    bind(objects, tmp_path)
    assert (await mount(services)).volumes[0].path == str(tmp_path)


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        pytest.param({"hostPath": {"path": "../etc"}}, "must be an absolute path without '..'", id="a-relative-path"),
        pytest.param({"hostPath": {"path": "/mnt/../etc"}}, "must be an absolute path", id="a-path-with-backsteps"),
        pytest.param({"hostPath": {"path": 7}}, "must be an absolute path", id="no-path"),
        pytest.param({"hostPath": {"path": "/", "type": "Pipe"}}, "spec.hostPath.type 'Pipe' is not known", id="type"),
        pytest.param(
            {"mountOptions": ["noatime"]}, "mount options are not supported for this volume type", id="mount-options"
        ),
        pytest.param(
            {"hostPath": None, "flexVolume": {"driver": "d"}},
            "no volume plugin matched: PV pv1 is made of flexVolume",
            id="made-of-what-nobody-mounts",
        ),
        pytest.param(
            {"nodeAffinity": {"required": {"nodeSelectorTerms": [{}]}}}, "no matching NodeSelectorTerms", id="elsewhere"
        ),
    ],
)
async def test_a_volume_that_can_t_be_mounted(
    services: NodeServices, objects: ObjectsInMemory, spec: dict[str, Any], fault: str
) -> None:
    """Each with its reason."""
    objects.put(ObjectKind.PERSISTENT_VOLUME_CLAIMS, "mine", CLAIM)
    objects.put(ObjectKind.PERSISTENT_VOLUMES, "pv1", persistent("/", **spec))
    with pytest.raises(ApplicationError, match=fault):
        await mount(services)


async def test_a_volume_for_nodes_of_a_topology_is_for_a_node_whose_object_says_so(
    services: NodeServices, objects: ObjectsInMemory, tmp_path: Path
) -> None:
    """A CSI driver's topology stands among the labels of the node's object; an API server that is away is no no."""
    wanted: dict[str, Any] = {"key": "topology.example.com/rack", "operator": "In", "values": ["7"]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}}
    objects.put(ObjectKind.PERSISTENT_VOLUME_CLAIMS, "mine", CLAIM)
    objects.put(ObjectKind.PERSISTENT_VOLUMES, "pv1", persistent(tmp_path, nodeAffinity=affinity))
    labels: dict[str, str] = {}

    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"metadata": {"name": "n1", "labels": labels}})

    app = web.Application()
    app.router.add_get("/api/v1/nodes/n1", answer)
    settings = replace(services.settings, node_name="n1")
    async with TestServer(app) as server, ApiServer(Kubeconfig(server=str(server.make_url("")).rstrip("/"))) as api:
        joined = replace(services, settings=settings, api=api)
        with pytest.raises(ApplicationError, match="no matching NodeSelectorTerms"):
            await mount(joined)
        labels[wanted["key"]] = "7"
        assert (await mount(joined)).volumes[0].path == str(tmp_path)
        await server.close()
        with pytest.raises(ApplicationError, match="error getting node info"):
            await mount(joined)


@dataclass
class Tape:
    """A type that writes down what it is asked."""

    takes_mount_options: bool = True
    takes_block: bool = True
    undone: list[tuple[str, bool]] = field(default_factory=list)

    async def mount(self, volume: PodVolume, persistent: PersistentVolume) -> Mounted:
        """Answer a volume."""
        return Mounted(MountedVolume(volume.name, f"/dev/{persistent.name}"), needs_fs_group=True)

    async def unmount(self, volume: PodVolume, *, block: bool) -> None:
        """Write it down."""
        self.undone.append((volume.name, block))


@pytest.fixture
def tape(monkeypatch: pytest.MonkeyPatch) -> Tape:
    """Let volumes be made of tape."""
    made = Tape()
    monkeypatch.setattr(persistent_volumes, "persistent_type", {"tape": made}.get)
    return made


async def test_it_is_undone_without_its_claim_and_once(
    services: NodeServices, objects: ObjectsInMemory, tape: Tape
) -> None:
    """Claim and volume are gone, and the pod still knows what it has; a second time there is nothing."""
    objects.put(ObjectKind.PERSISTENT_VOLUME_CLAIMS, "mine", {"spec": CLAIM["spec"] | {"volumeMode": "Block"}})
    made_of: dict[str, Any] = {"hostPath": None, "tape": {}, "volumeMode": "Block"}
    objects.put(ObjectKind.PERSISTENT_VOLUMES, "pv1", persistent("/", **made_of))
    mounted = await mount(services)
    assert mounted.volumes == (MountedVolume("data", "/dev/pv1", device=True),)
    objects.kept.clear()
    await unmount(services)
    await unmount(services)
    assert tape.undone == [("pv1", True)]


async def test_a_claim_that_is_bound_anew_does_not_change_what_a_pod_has(
    services: NodeServices, objects: ObjectsInMemory, tape: Tape
) -> None:
    """Else the first volume would stay mounted for ever."""
    for name in ("pv1", "pv2"):
        objects.put(ObjectKind.PERSISTENT_VOLUMES, name, persistent("/", hostPath=None, tape={}))
    objects.put(ObjectKind.PERSISTENT_VOLUME_CLAIMS, "mine", CLAIM)
    await mount(services)
    objects.put(ObjectKind.PERSISTENT_VOLUME_CLAIMS, "mine", {"spec": CLAIM["spec"] | {"volumeName": "pv2"}})
    with pytest.raises(ApplicationError, match="PV pv1 is mounted, and its claim is now bound to PV pv2"):
        await mount(services)
    await unmount(services)
    assert tape.undone == [("pv1", False)]
