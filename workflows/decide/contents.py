"""What the files of a pod's volumes consist of besides the objects they show: fields of the pod itself.

Pure. Used by `slices` for what mounting needs, and by `refresh` for which edits in place change files.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from posixpath import normpath
from typing import Any, Final

from proto.kubernetes.contents.projections import pod_certificate_key, token_key, trust_bundle_key
from proto.kubernetes.pod_containers import every_container
from proto.temporal.pod import PodJson

Source = Mapping[str, Any]

WRITTEN: Final = ("configMap", "secret", "downwardAPI", "projected")
"""The volume types whose files the node writes."""
IN_MEMORY: Final = ("secret", "downwardAPI", "projected")
CREDENTIALS: Final = ("serviceAccountToken", "clusterTrustBundle", "podCertificate")
"""The sources of a projected volume that are issued for its pod, or that one of its users must own."""
_MAPS: Final = ("labels", "annotations")


def shown_metadata(volumes: Sequence[Source]) -> tuple[str, ...]:
    """Name the maps of the pod's metadata that some file shows."""
    paths = [(item.get("fieldRef") or {}).get("fieldPath", "") for one in volumes for item in downward_items(one)]
    return tuple(field for field in _MAPS if any(path.startswith(f"metadata.{field}") for path in paths))


def shown_container_fields(spec: Source) -> set[str]:
    """Name the container fields that the volumes' files, or mounts nested in them, depend on."""
    volumes = spec.get("volumes") or ()
    fields = set()
    if any("resourceFieldRef" in item for one in volumes for item in downward_items(one)):
        fields.add("resources")
    written = {one["name"] for one in volumes if is_written(one)}
    if any(has_nested_mounts(one.get("volumeMounts") or (), written) for one in every_container(spec)):
        fields.add("volumeMounts")
    return fields


def pod_digest(pod: PodJson) -> str:
    """Hash what the volumes show of the pod and an edit in place may change; empty if they show nothing."""
    spec = pod["spec"]
    volumes = spec.get("volumes") or ()
    fields = shown_metadata(volumes)
    shown: list[Any] = [pod["metadata"].get(field) or {} for field in fields]
    if "resources" in shown_container_fields(spec):
        shown.append([[one["name"], one.get("resources") or {}] for one in every_container(spec)])
    if not shown:
        return ""
    text = json.dumps(shown, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def shows_its_pod(volume: Source) -> bool:
    """Report whether a volume has a file that an edit in place may change."""
    return any("resourceFieldRef" in item for item in downward_items(volume)) or bool(shown_metadata([volume]))


def downward_items(volume: Source) -> Iterator[Source]:
    """List the files of a volume that show fields of the pod."""
    yield from (volume.get("downwardAPI") or {}).get("items") or ()
    for projection in (volume.get("projected") or {}).get("sources") or ():
        yield from (projection.get("downwardAPI") or {}).get("items") or ()


def shown_objects(volume: Source) -> Iterator[tuple[str, bool]]:
    """Name the objects that a volume shows, as `configmaps/<name>`, and whether each is optional.

    ConfigMaps and Secrets; for a projected volume also its tokens, trust bundles and certificates, by the keys of `projections`.
    """
    if source := volume.get("configMap"):
        yield f"configmaps/{source.get('name', '')}", bool(source.get("optional"))
    if source := volume.get("secret"):
        yield f"secrets/{source.get('secretName', '')}", bool(source.get("optional"))
    for index, projection in enumerate((volume.get("projected") or {}).get("sources") or ()):
        for kind, plural in (("configMap", "configmaps"), ("secret", "secrets")):
            if source := projection.get(kind):
                yield f"{plural}/{source.get('name', '')}", bool(source.get("optional"))
        if source := projection.get("serviceAccountToken"):
            yield token_key(source), False
        if source := projection.get("clusterTrustBundle"):
            yield trust_bundle_key(source), bool(source.get("optional"))
        if projection.get("podCertificate"):
            yield pod_certificate_key(volume["name"], index), False


def needs_pod_credentials(volume: Source) -> bool:
    """Report whether a volume shows something issued for its pod alone, or that one of its users must own."""
    sources = (volume.get("projected") or {}).get("sources") or ()
    return any(kind in one for one in sources for kind in CREDENTIALS)


def is_written(volume: Source) -> bool:
    """Report whether the node writes a volume's files."""
    return any(kind in volume for kind in WRITTEN)


def lies_in_memory(volume: Source) -> bool:
    """Report whether a volume's files are in memory, so that they count as the pod's memory."""
    return any(kind in volume for kind in IN_MEMORY)


def has_nested_mounts(mounts: Sequence[Source], volumes: set[str]) -> bool:
    """Report whether a container mounts something inside one of these volumes."""
    places = [normpath(one["mountPath"]) for one in mounts]
    own = [normpath(one["mountPath"]) for one in mounts if one["name"] in volumes]
    return any(place.startswith(f"{one}/") for one in own for place in places)
