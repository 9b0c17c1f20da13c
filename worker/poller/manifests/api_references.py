"""The objects that a static pod may not refer to (pkg/api/pod/util.go HasAPIObjectReference).

Whoever can write a manifest could otherwise read, by the node's credentials, the Secrets of any namespace that a pod of
this node uses. A kubelet refuses such a pod everywhere. A standalone node has no API server: its ConfigMaps and Secrets
come from the objects folder, which the manifests' own administrator fills.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from proto.kubernetes.pod_containers import KINDS
from workflows.decide.manifest.fields.field_errors import forbidden

_OF_SOURCE: Final = {
    "secretRef": "secrets",
    "secretKeyRef": "secrets",
    "configMapRef": "configmaps",
    "configMapKeyRef": "configmaps",
}
_OF_VOLUME: Final = {
    "secret": "secrets",
    "configMap": "configmaps",
    "csi": "csidrivers",
    "glusterfs": "endpoints",
    "persistentVolumeClaim": "persistentvolumeclaims",
    "ephemeral": "persistentvolumeclaims",
    "azureFile": "secrets",
    "serviceAccountToken": "serviceaccounts",
    "clusterTrustBundle": "clustertrustbundles",
    "podCertificate": "podcertificates",
}
"""By the field of a volume, or of a source of a projected one."""
_ANY_VOLUME: Final = "secretRef"
"""The field by which a volume of another type refers to a Secret."""


def api_references(spec: Mapping[str, Any], *, cluster: bool) -> Iterator[str]:
    """List the references that a static pod may not have, each with its path; `cluster`: the node has a kubeconfig."""
    for field in ("serviceAccountName", "serviceAccount"):
        if spec.get(field):
            yield _refused(f"spec.{field}", "serviceaccounts")
    if not cluster:
        return
    for index, one in enumerate(spec.get("imagePullSecrets") or ()):
        if one.get("name"):
            yield _refused(f"spec.imagePullSecrets[{index}]", "secrets")
    for kind in KINDS:
        for index, container in enumerate(spec.get(kind) or ()):
            yield from _of_container(container, f"spec.{kind}[{index}]")
    if spec.get("resourceClaims"):
        yield _refused("spec.resourceClaims", "resourceclaims")
    for index, volume in enumerate(spec.get("volumes") or ()):
        yield from _of_volume(volume, f"spec.volumes[{index}]")


def _of_container(container: Mapping[str, Any], path: str) -> Iterator[str]:
    for index, source in enumerate(container.get("envFrom") or ()):
        yield from (_refused(f"{path}.envFrom[{index}].{field}", _OF_SOURCE[field]) for field in _named(source))
    for index, variable in enumerate(container.get("env") or ()):
        source = variable.get("valueFrom") or {}
        yield from (_refused(f"{path}.env[{index}].valueFrom.{field}", _OF_SOURCE[field]) for field in _named(source))


def _named(source: Mapping[str, Any]) -> Iterator[str]:
    """Name the fields that refer to an object; an empty name refers to none."""
    return (field for field in _OF_SOURCE if (source.get(field) or {}).get("name"))


def _of_volume(volume: Mapping[str, Any], path: str) -> Iterator[str]:
    sources = (volume.get("projected") or {}).get("sources") or ()
    for place, one in ((path, volume), *((f"{path}.projected.sources[{at}]", one) for at, one in enumerate(sources))):
        yield from (_refused(f"{place}.{field}", _OF_VOLUME[field]) for field in one if field in _OF_VOLUME)
    for kind, source in volume.items():
        if isinstance(source, Mapping) and (source.get(_ANY_VOLUME) or {}).get("name"):
            yield _refused(f"{path}.{kind}.{_ANY_VOLUME}", "secrets")


def _refused(path: str, objects: str) -> str:
    return forbidden(path, f"static pods may not reference {objects}")
