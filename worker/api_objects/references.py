"""The ConfigMaps and Secrets that a pod's spec refers to.

Pure; used by `watched_objects`, which watches only objects that pods of this node refer to, because the node authorizer allows
no others (pkg/api/v1/pod VisitPodSecretNames, VisitPodConfigmapNames).
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from activities.objects.objects import ObjectKind
from proto.kubernetes.contents.variable_sources import variable_objects
from proto.kubernetes.pod_containers import every_container

_Source = Mapping[str, Any]
Reference = tuple[ObjectKind, str]
"""An object in the pod's namespace."""

_VOLUME_SECRETS: Final[Mapping[str, str]] = {
    "azureFile": "secretName",
    **dict.fromkeys(("cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos"), "secretRef"),
    "csi": "nodePublishSecretRef",
    "secret": "secretName",
}
"""The field of a volume type that names its Secret: a name, or an object with a name."""


def references(pod: _Source) -> frozenset[Reference]:
    """Return all references, each once."""
    spec = pod.get("spec") or {}
    found = {(ObjectKind.SECRETS, one.get("name")) for one in spec.get("imagePullSecrets") or ()}
    for container in every_container(spec):
        found |= {(ObjectKind(plural), name) for plural, name in variable_objects(container)}
    for volume in spec.get("volumes") or ():
        found |= set(_of_volume(volume))
    return frozenset((kind, name) for kind, name in found if name)


def _of_volume(volume: _Source) -> Iterator[tuple[ObjectKind, str | None]]:
    for kind, field in _VOLUME_SECRETS.items():
        if chosen := (volume.get(kind) or {}).get(field):
            yield ObjectKind.SECRETS, chosen if isinstance(chosen, str) else chosen.get("name")
    if source := volume.get("configMap"):
        yield ObjectKind.CONFIG_MAPS, source.get("name")
    for projection in (volume.get("projected") or {}).get("sources") or ():
        if source := projection.get("secret"):
            yield ObjectKind.SECRETS, source.get("name")
        if source := projection.get("configMap"):
            yield ObjectKind.CONFIG_MAPS, source.get("name")
