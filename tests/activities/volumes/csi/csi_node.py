"""A node with one CSI driver and one claim.

The driver runs in the test's process with folders as volumes; mounts are real.
"""

import base64
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from temporalio.testing import ActivityEnvironment

from activities.clients.csi_drivers import CsiDrivers, Driver
from activities.clients.runtime import RuntimeClient
from activities.clients.start_limit import StartLimit
from activities.files import mounts
from activities.images.image_pulls import ImagePulls
from activities.machine.cgroups import Cgroups
from activities.node_services import NodeServices
from activities.objects.objects import ObjectKind
from activities.settings.activity_settings import ActivitySettings
from activities.volumes.csi.records.volume import attachment_name
from activities.volumes.plugin.table import volume_type
from activities.volumes.plugin.volume_type import Mounted, PodVolume
from activities.volumes.pod_volumes import VolumeActivities
from proto.temporal.activities.volumes import UnmountVolumes
from proto.temporal.pod import PodJson, PodKey
from proto.volumes_in_use import write_reported_volumes
from tests.activities.stored_objects import ObjectsInMemory
from tests.csi.orders import Setup
from tests.csi.serving import Served, serving

NAME: Final = "dir.csi.tempolet.test"
STAGE, PUBLISH = "NodeStageVolume", "NodePublishVolume"
UNPUBLISH, UNSTAGE = "NodeUnpublishVolume", "NodeUnstageVolume"
LIFE: Final = (STAGE, PUBLISH, UNPUBLISH, UNSTAGE)
CANARY: Final = "canary-Zq7/secret value"
CLAIM: Final[PodJson] = {"name": "data", "persistentVolumeClaim": {"claimName": "mine"}}


@dataclass
class Node:
    """A node with one driver and one claim."""

    services: NodeServices
    objects: ObjectsInMemory
    driver: Served

    def pod(self, uid: str) -> PodKey:
        """Name a pod."""
        return PodKey("default", uid, uid)

    def restarted(self) -> "Node":
        """Drop everything that the process knew: only the disk is left."""
        csi = CsiDrivers()
        csi._drivers.update(self.services.csi._drivers)
        csi._registered.update(self.services.csi._registered)
        services = NodeServices(
            settings=self.services.settings,
            runtime=self.services.runtime,
            cgroups=self.services.cgroups,
            pulls=self.services.pulls,
            objects=self.objects,
            csi=csi,
        )
        return Node(services, self.objects, self.driver)

    def bind(self, *, csi: dict[str, Any] | None = None, **spec: Any) -> None:
        """Store a claim and its volume; keywords replace parts of the volume's spec."""
        modes = spec.get("accessModes", ["ReadWriteOnce"])
        mode = {"volumeMode": spec["volumeMode"]} if "volumeMode" in spec else {}
        self.objects.put(
            ObjectKind.PERSISTENT_VOLUME_CLAIMS, "mine", {"spec": {"volumeName": "pv1", "accessModes": modes, **mode}}
        )
        made_of = {"driver": NAME, "volumeHandle": "vol-1", **(csi or {})}
        reference = {"namespace": "default", "name": "mine"}
        self.objects.put(
            ObjectKind.PERSISTENT_VOLUMES,
            "pv1",
            {"spec": {"csi": made_of, "accessModes": modes, "claimRef": reference, **spec}},
        )

    def driver_object(self, **spec: Any) -> None:
        """Store the driver's object."""
        self.objects.put(ObjectKind.CSI_DRIVERS, NAME, {"spec": {"attachRequired": False, **spec}})

    def secret(self, name: str, **values: str) -> None:
        """Store a secret."""
        data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
        self.objects.put(ObjectKind.SECRETS, name, {"data": data})

    def attaching(self, **spec: Any) -> None:
        """Become a node of a cluster whose driver's volumes are attached, by its object."""
        self.driver_object(attachRequired=True, **spec)
        self.services = replace(self.services, api=object())  # type: ignore[arg-type]

    def attachment(self, **status: Any) -> None:
        """Store the attachment of the volume."""
        name = attachment_name("vol-1", NAME, self.services.settings.node_name)
        self.objects.put(ObjectKind.VOLUME_ATTACHMENTS, name, {"status": status})

    def report_in_use(self, *handles: str) -> None:
        """Say that the API server knows these volumes to be in use."""
        write_reported_volumes(self.services.settings.root_dir, [f"kubernetes.io/csi/{NAME}^{one}" for one in handles])

    async def mount(self, pod: PodKey, volume: PodJson = CLAIM, **spec: Any) -> Mounted:
        """Mount a volume of a pod, as the activity does."""
        kind = next(field for field in volume if field != "name")
        told = {"metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}, "spec": spec}
        found = volume_type(kind)
        assert found
        return await found.mount(PodVolume(pod, volume["name"], volume[kind], told, self.services))

    async def unmount(self, pod: PodKey, volume: PodJson = CLAIM) -> None:
        """Unmount it."""
        request = UnmountVolumes(pod, (volume,))
        await ActivityEnvironment().run(VolumeActivities(self.services).unmount_volumes, request)

    def life(self) -> list[str]:
        """Return the calls that stage, publish and undo, in order."""
        return [one["call"] for one in self.driver.calls(*LIFE)]

    def left(self) -> list[str]:
        """List what is left on the node: files, and folders other than pods' own."""
        root = self.services.settings.root_dir
        found = [*root.glob("pods/*/volumes/kubernetes.io~csi/*"), *root.glob("pods/*/volumeDevices/*/*")]
        found += [*root.glob("plugins/kubernetes.io/csi/**/vol_data.json"), *root.glob("pods/*/plugins/*/*")]
        found += root.glob("plugins/kubernetes.io/csi/volumeDevices/*/*")
        return sorted(str(one.relative_to(root)) for one in found)


class NodeWithDriver:
    """A node with a driver of some kind."""

    def __init__(self, path: Path, setup: Setup) -> None:
        self._path = path
        self._serving = serving(path / "driver", path / "reg.sock", setup)

    async def __aenter__(self) -> Node:
        driver = await self._serving.__aenter__()
        objects = ObjectsInMemory()
        services = NodeServices(
            settings=ActivitySettings(
                root_dir=self._path / "kubelet", pod_logs_dir=self._path / "logs", node_name="n1"
            ),
            runtime=RuntimeClient("unix:///nowhere", StartLimit(1)),
            cgroups=Cgroups("/nowhere"),
            pulls=ImagePulls(),
            objects=objects,
        )
        await services.csi.add(Driver(NAME, str(driver.path / "csi.sock")))
        node = Node(services, objects, driver)
        node.driver_object()
        node.bind()
        return node

    async def __aexit__(self, *failure: object) -> None:
        for point in mounts.mounts_below(self._path):
            mounts.unmount(Path(point), detach=True)
        await self._serving.__aexit__(None, None, None)
