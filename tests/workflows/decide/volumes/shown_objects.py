"""A model of the content of a pod's volumes: one ConfigMap with increasing versions, and the pod's own labels."""

from dataclasses import dataclass
from typing import Final

from proto.temporal.activities.volumes import MountedVolumes, MountVolumes
from proto.temporal.mounted import MountedVolume
from proto.temporal.pod import PodJson
from proto.temporal.signals import ObjectsChanged
from workflows.decide.contents import shown_objects, shows_its_pod

NAME: Final = "configmaps/app"
LABELS: Final = {"path": "labels", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.labels"}}
VOLUMES: Final[list[PodJson]] = [
    {"name": "data", "emptyDir": {"sizeLimit": "1Mi"}},
    {"name": "app", "configMap": {"name": "app"}},
    {"name": "about", "downwardAPI": {"items": [LABELS]}},
]


@dataclass(slots=True)
class ShownObjects:
    """The ConfigMap, and the volumes' content."""

    version: int = 1
    shown: str = ""
    told: str = ""

    def mount(self, action: MountVolumes) -> MountedVolumes:
        """Write the current files of these volumes."""
        objects = {}
        for volume in action.volumes:
            if any(name == NAME for name, _ in shown_objects(volume)):
                self.shown = objects[NAME] = str(self.version)
            if shows_its_pod(volume):
                self.told = action.told
        return MountedVolumes(tuple(MountedVolume(one["name"]) for one in action.volumes), objects=objects)

    def hint(self) -> ObjectsChanged:
        """Build the poller's hint."""
        return ObjectsChanged("objects", {NAME: str(self.version)})
