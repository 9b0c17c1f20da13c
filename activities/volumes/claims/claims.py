"""Decides whether a claim can be used, and reads its PersistentVolume; pure.

The rules and messages are the kubelet's (pkg/kubelet/volumemanager/populator, getPVCExtractPV and getPVSpec), and two
of the binder's (pv_controller.go checkVolumeSatisfyClaim), which on a standalone node no binder has checked.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from activities.volumes.plugin.persistent_type import PersistentVolume
from proto.kubernetes.node_selector import Labels, selects
from proto.kubernetes.pod_containers import every_container

_PROTECTION: Final = "kubernetes.io/pvc-protection"
_GROUP_ANNOTATION: Final = "pv.beta.kubernetes.io/gid"
_NUMBER: Final = re.compile("[0-9]{1,18}", re.ASCII)
_FILESYSTEM: Final = "Filesystem"
_BLOCK: Final = "Block"
_BESIDES: Final = frozenset(
    {
        *("accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "persistentVolumeReclaimPolicy"),
        *("storageClassName", "volumeAttributesClassName", "volumeMode"),
    }
)
"""The fields of a PersistentVolume's spec that do not name its type."""


class ClaimUnusable(Exception):
    """A claim cannot be mounted now; the message is the kubelet's."""


def volume_name(claim: Mapping[str, Any]) -> str:
    """Return the name of the PersistentVolume that a claim is bound to; raises ClaimUnusable.

    A claim from a file has no status: it counts as bound if it names its volume.
    """
    metadata, spec, status = (_part(claim, field) for field in ("metadata", "spec", "status"))
    if metadata.get("deletionTimestamp") and _PROTECTION not in (metadata.get("finalizers") or ()):
        raise ClaimUnusable("PVC is being deleted")
    name = spec.get("volumeName") or ""
    if status.get("phase", "Bound" if name else "Pending") != "Bound":
        raise ClaimUnusable("PVC is not bound")
    if not name:
        raise ClaimUnusable("PVC has empty pvc.Spec.VolumeName")
    return str(name)


def check_owner(claim: Mapping[str, Any], pod_uid: str, pod: str) -> None:
    """Refuse a claim that was not created for this pod, which the message calls `pod`; raises ClaimUnusable."""
    owners = _part(claim, "metadata").get("ownerReferences") or ()
    if not any(one.get("controller") is True and one.get("uid") == pod_uid for one in owners):
        name = f"{_part(claim, 'metadata').get('namespace')}/{_part(claim, 'metadata').get('name')}"
        raise ClaimUnusable(f"PVC {name} was not created for pod {pod} (pod is not owner)")


def bound_volume(
    name: str, volume: Mapping[str, Any], claim: Mapping[str, Any], *, read_only: bool
) -> PersistentVolume:
    """Read a PersistentVolume, which must be bound to the claim; raises ClaimUnusable."""
    spec = _part(volume, "spec")
    _check_bound(name, spec, claim)
    kinds = [field for field, value in spec.items() if field not in _BESIDES and value is not None]
    if len(kinds) != 1 or not isinstance(spec[kinds[0]], Mapping):
        named = ", ".join(sorted(kinds)) or "none"
        raise ClaimUnusable(f"PV {name} must be made of exactly one volume type, and names {named}")
    wanted = _part(claim, "spec")
    modes, asked = _texts(name, spec, "accessModes"), _texts(name, wanted, "accessModes")
    if _mode(spec) != _mode(wanted):
        raise ClaimUnusable(f"PV {name} does not fit: incompatible volumeMode")
    if not set(asked) <= set(modes):
        raise ClaimUnusable(f"PV {name} does not fit: incompatible accessMode")
    return PersistentVolume(
        name=name,
        type=kinds[0],
        source=spec[kinds[0]],
        access_modes=modes,
        mount_options=_texts(name, spec, "mountOptions"),
        read_only=read_only,
        block=_mode(spec) == _BLOCK,
        group_id=_group_of(volume),
        objects=(volume, claim),
    )


def reachable(volume_spec: Mapping[str, Any], labels: Labels, node: str) -> bool:
    """Report whether the volume's node affinity admits this node; without one, any node is admitted."""
    required = (volume_spec.get("nodeAffinity") or {}).get("required")
    return not required or selects(required.get("nodeSelectorTerms") or (), labels, node)


def check_use(name: str, persistent: PersistentVolume, pod_spec: Mapping[str, Any]) -> None:
    """Refuse a device that a container mounts, and a file system that one uses as a device; raises ClaimUnusable."""
    mode, field = (_BLOCK, "volumeMounts") if persistent.block else (_FILESYSTEM, "volumeDevices")
    used = (one for container in every_container(pod_spec) for one in container.get(field) or ())
    if any(one["name"] == name for one in used):
        raise ClaimUnusable(f"volume {name} has volumeMode {mode}, but is specified in {field}")


def _check_bound(name: str, spec: Mapping[str, Any], claim: Mapping[str, Any]) -> None:
    bound, own = _part(spec, "claimRef"), _part(claim, "metadata")
    if not bound:
        raise ClaimUnusable(
            f"found PV object {name} but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim"
        )
    there, here = (f"{one.get('namespace') or ''}/{one.get('name') or ''}" for one in (bound, own))
    if there != here:
        raise ClaimUnusable(f"found PV object {name} but its pv.Spec.ClaimRef {there} does not point to claim {here}")
    there, here = bound.get("uid") or "", own.get("uid") or ""
    if there != here:
        raise ClaimUnusable(
            f"found PV object {name} but its pv.Spec.ClaimRef.UID {there} does not point to claim.UID {here}"
        )


def _mode(spec: Mapping[str, Any]) -> str:
    return str(spec.get("volumeMode") or _FILESYSTEM)


def _group_of(volume: Mapping[str, Any]) -> int | None:
    """Return the group that owns the volume's files.

    A value that is not a number is ignored (getExtraSupplementalGID).
    """
    annotation = _part(_part(volume, "metadata"), "annotations").get(_GROUP_ANNOTATION)
    return int(annotation) if isinstance(annotation, str) and _NUMBER.fullmatch(annotation) else None


def _texts(name: str, spec: Mapping[str, Any], field: str) -> tuple[str, ...]:
    found = spec.get(field) or ()
    if isinstance(found, str) or not isinstance(found, Iterable) or not all(isinstance(one, str) for one in found):
        raise ClaimUnusable(f"{field} of PV {name} or its claim must be a list of strings")
    return tuple(found)


def _part(of: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    found = of.get(field)
    return found if isinstance(found, Mapping) else {}
