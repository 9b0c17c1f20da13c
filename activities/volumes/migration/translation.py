"""Translates a PersistentVolume of a cloud's type, or such a volume in a pod's spec, into one of the CSI driver that took it over; pure.

The rules are those of csi-translation-lib of 1.36.3, which scheduler, controllers and kubelet use, so that all find the same volume:
`tests/cluster/decisions/migration` asks the library itself. A new type is a row in `MIGRATED`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from activities.volumes.migration import topology
from activities.volumes.migration.handles import MigrationError, azure_account, ebs_volume, gce_disk

Json = dict[str, Any]
_MANAGED: Final = "Managed"
_ONE: Final = ("ReadWriteOnce",)
_READERS: Final = ("ReadOnlyMany",)
_RESOURCE_GROUP: Final = "kubernetes.io/azure-file-resource-group"
_AUTH_SECRET: Final = ("openstorage.io/auth-secret-name", "openstorage.io/auth-secret-namespace")
_SECRETS: Final = (
    *("controllerPublishSecretRef", "nodeStageSecretRef", "nodePublishSecretRef"),
    *("controllerExpandSecretRef", "nodeExpandSecretRef"),
)


@dataclass(frozen=True, slots=True)
class MigratedPlugin:
    """A type of volume that a CSI driver has taken over."""

    plugin: str
    """The kubelet's name of the plugin that had it."""
    driver: str
    translate: Callable[[Json, Json], Json]
    """Takes a PersistentVolume and the value of the type's field; returns the volume with the driver's `csi` source."""
    inline: Callable[[Json, str, str], Json]
    """Takes that value in a pod's spec, the volume's name and the pod's namespace; returns a PersistentVolume."""


def migrated_volume(volume: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a PersistentVolume as its driver has it; one that is not of a cloud's type is returned as it is.

    Raises MigrationError.
    """
    spec = volume.get("spec")
    if not isinstance(spec, Mapping):
        return volume
    kind = next((kind for kind in MIGRATED if spec.get(kind) is not None), None)
    if kind is None:
        return volume
    row, source = MIGRATED[kind], spec[kind]
    with _refusing(f"spec.{kind}"):
        left = {field: value for field, value in spec.items() if field != kind}
        return row.translate({**volume, "metadata": volume.get("metadata") or {}, "spec": left}, dict(source))


def inline_volume(volume: Mapping[str, Any], namespace: str) -> Mapping[str, Any]:
    """Return a volume of a pod's spec as the PersistentVolume that its driver has; raises MigrationError.

    A volume that is not of a cloud's type is returned as it is.
    """
    kind = next((kind for kind in MIGRATED if volume.get(kind) is not None), None)
    if kind is None:
        return volume
    with _refusing(kind):
        return MIGRATED[kind].inline(dict(volume[kind]), str(volume["name"]), namespace)


@contextmanager
def _refusing(field: str) -> Iterator[None]:
    """Say what failed, also for an object from a file, which may have any shape."""
    try:
        yield
    except MigrationError as error:
        raise MigrationError(f"failed to translate in-tree pv to CSI: {error}") from None
    except (TypeError, ValueError, AttributeError, KeyError):
        raise MigrationError(f"failed to translate in-tree pv to CSI: {field} is not valid") from None


def _ebs(volume: Json, source: Json) -> Json:
    made = _with_source(volume, "ebs.csi.aws.com", *_ebs_parts(source), of=source)
    return topology.with_driver_zone(made, "topology.ebs.csi.aws.com/zone")


def _ebs_inline(source: Json, _name: str, _namespace: str) -> Json:
    handle, attributes = _ebs_parts(source)
    return _with_source(_made(f"ebs.csi.aws.com-{handle}", _ONE), "ebs.csi.aws.com", handle, attributes, of=source)


def _ebs_parts(source: Json) -> tuple[str, dict[str, str]]:
    try:
        handle = ebs_volume(_text(source, "volumeID"))
    except MigrationError as error:
        raise MigrationError(f"failed to translate Kubernetes ID to EBS Volume ID {error}") from None
    return handle, {"partition": str(int(source.get("partition") or 0))}


def _gce(volume: Json, source: Json) -> Json:
    labels = volume["metadata"].get("labels") or {}
    zones = labels.get(topology.OLD_ZONE) or labels.get(topology.ZONE) or ""
    handle = gce_disk(_text(source, "pdName"), zones.split(topology.BETWEEN_ZONES))
    made = _with_source(volume, "pd.csi.storage.gke.io", handle, _gce_attributes(source), of=source)
    made = topology.with_driver_zone(made, "topology.gke.io/zone")
    modes = made["spec"].get("accessModes")
    if modes is None:
        return made
    once = {"ReadWriteOnce", "ReadWriteMany"} & set(modes) or "ReadOnlyMany" not in modes
    return {**made, "spec": {**made["spec"], "accessModes": ["ReadWriteOnce" if once else "ReadOnlyMany"]}}


def _gce_inline(source: Json, _name: str, _namespace: str) -> Json:
    disk = _text(source, "pdName")
    made = _made(f"pd.csi.storage.gke.io-{disk}", _READERS if source.get("readOnly") else _ONE)
    return _with_source(made, "pd.csi.storage.gke.io", gce_disk(disk), _gce_attributes(source), of=source)


def _gce_attributes(source: Json) -> dict[str, str]:
    return {"partition": str(int(source.get("partition") or 0) or "")}


def _cinder(volume: Json, source: Json) -> Json:
    made = _with_source(volume, "cinder.csi.openstack.org", _text(source, "volumeID"), {}, of=source)
    return topology.with_driver_zone(made, "topology.cinder.csi.openstack.org/zone")


def _cinder_inline(source: Json, _name: str, _namespace: str) -> Json:
    disk = _text(source, "volumeID")
    return _with_source(
        _made(f"cinder.csi.openstack.org-{disk}", _ONE), "cinder.csi.openstack.org", disk, {}, of=source
    )


def _azure_disk(volume: Json, source: Json) -> Json:
    return _with_source(
        volume, "disk.csi.azure.com", _text(source, "diskURI"), _azure_disk_attributes(source), of=source
    )


def _azure_disk_inline(source: Json, _name: str, _namespace: str) -> Json:
    disk = _text(source, "diskURI")
    attributes = _azure_disk_attributes(source)
    if not attributes.get("cachingmode"):
        attributes.pop("cachingmode", None)
    return _with_source(_made(disk, _ONE), "disk.csi.azure.com", disk, attributes, of=source)


def _azure_disk_attributes(source: Json) -> dict[str, str]:
    kind = source.get("kind")
    if kind is not None and str(kind).lower() != _MANAGED.lower():
        raise MigrationError(f"kind({kind}) is not supported in csi migration")
    attributes = {
        name: str(source[field])
        for name, field in (("cachingmode", "cachingMode"), ("fstype", "fsType"))
        if source.get(field) is not None
    }
    return attributes | {"kind": _MANAGED}


def _azure_file(volume: Json, source: Json) -> Json:
    metadata, claim = volume["metadata"], volume["spec"].get("claimRef") or {}
    group = (metadata.get("annotations") or {}).get(_RESOURCE_GROUP) or ""
    given = source.get("secretNamespace")
    namespace = str(claim.get("namespace") or "") if given is None else str(given)
    if not namespace:
        raise MigrationError("could not find a secret namespace in PersistentVolumeSource or ClaimRef")
    return _azure_share(volume, source, (group, metadata.get("name") or "", namespace))


def _azure_file_inline(source: Json, name: str, namespace: str) -> Json:
    made = _azure_share(_made("", ("ReadWriteMany",)), source, ("", name, namespace or "default"))
    return {**made, "metadata": {"name": made["spec"]["csi"]["volumeHandle"]}}


def _azure_share(volume: Json, source: Json, parts: tuple[str, str, str]) -> Json:
    """Give the volume its driver's source; `parts` are the resource group, the volume's name and the secret's namespace."""
    group, name, namespace = parts
    secret, share = _text(source, "secretName"), _text(source, "shareName")
    handle = "#".join((group, azure_account(secret), share, name, namespace))
    plain = {"readOnly": source.get("readOnly")}
    made = _with_source(volume, "file.csi.azure.com", handle, {"sharename": share}, of=plain)
    made["spec"]["csi"]["nodeStageSecretRef"] = {"name": secret, "namespace": namespace}
    return made


def _vsphere(volume: Json, source: Json) -> Json:
    made = _vsphere_disk(volume, source)
    return topology.with_vsphere_topology(made, "topology.csi.vmware.com/zone", "topology.csi.vmware.com/region")


def _vsphere_inline(source: Json, _name: str, _namespace: str) -> Json:
    """Of a volume with a policy, for which the library panics, the policy goes to the driver as that of a PersistentVolume does."""
    return _vsphere_disk(_made(f"csi.vsphere.vmware.com-{_text(source, 'volumePath')}", _ONE), source)


def _vsphere_disk(volume: Json, source: Json) -> Json:
    policy = source.get("storagePolicyName")
    attributes = {"storagepolicyname": str(policy)} if policy else {}
    path, plain = _text(source, "volumePath"), {"fsType": source.get("fsType")}
    return _with_source(volume, "csi.vsphere.vmware.com", path, attributes, of=plain)


def _portworx(volume: Json, source: Json) -> Json:
    plain = {"fsType": source.get("fsType")}
    made = _with_source(volume, "pxd.portworx.com", _text(source, "volumeID"), {}, of=plain)
    annotations = volume["metadata"].get("annotations") or {}
    if all(one in annotations for one in _AUTH_SECRET):
        name, namespace = (annotations[one] for one in _AUTH_SECRET)
        made["spec"]["csi"] |= {field: {"name": name, "namespace": namespace} for field in _SECRETS}
    return made


def _portworx_inline(source: Json, _name: str, _namespace: str) -> Json:
    made = _made(f"pxd.portworx.com-{_text(source, 'volumeID')}", _READERS if source.get("readOnly") else _ONE)
    plain = {"fsType": source.get("fsType")}
    return _with_source(made, "pxd.portworx.com", _text(source, "volumeID"), {}, of=plain)


def _made(name: str, modes: Sequence[str]) -> Json:
    """Make a PersistentVolume for a volume of a pod's spec, which is never a device."""
    return {"metadata": {"name": name}, "spec": {"accessModes": list(modes), "volumeMode": "Filesystem"}}


def _with_source(volume: Json, driver: str, handle: str, attributes: Mapping[str, str], *, of: Json) -> Json:
    """Give the volume the driver's source, with file system and read-only flag of the former one."""
    csi: Json = {"driver": driver, "volumeHandle": handle, "volumeAttributes": dict(attributes)}
    if of.get("fsType"):
        csi["fsType"] = str(of["fsType"])
    if of.get("readOnly"):
        csi["readOnly"] = True
    return {**volume, "spec": {**volume["spec"], "csi": csi}}


def _text(source: Json, field: str) -> str:
    return str(source.get(field) or "")


MIGRATED: Final[Mapping[str, MigratedPlugin]] = {
    "awsElasticBlockStore": MigratedPlugin("kubernetes.io/aws-ebs", "ebs.csi.aws.com", _ebs, _ebs_inline),
    "azureDisk": MigratedPlugin("kubernetes.io/azure-disk", "disk.csi.azure.com", _azure_disk, _azure_disk_inline),
    "azureFile": MigratedPlugin("kubernetes.io/azure-file", "file.csi.azure.com", _azure_file, _azure_file_inline),
    "cinder": MigratedPlugin("kubernetes.io/cinder", "cinder.csi.openstack.org", _cinder, _cinder_inline),
    "gcePersistentDisk": MigratedPlugin("kubernetes.io/gce-pd", "pd.csi.storage.gke.io", _gce, _gce_inline),
    "portworxVolume": MigratedPlugin("kubernetes.io/portworx-volume", "pxd.portworx.com", _portworx, _portworx_inline),
    "vsphereVolume": MigratedPlugin(
        "kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com", _vsphere, _vsphere_inline
    ),
}
"""By the field of a PersistentVolume's spec, or of a volume in a pod's spec."""
