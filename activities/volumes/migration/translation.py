"""Translates a PersistentVolume of a cloud's type into one of the CSI driver that took it over; pure.

The rules are those of csi-translation-lib of 1.36.3, which scheduler, controllers and kubelet use, so that all find the same volume:
`tests/cluster/decisions/migration` asks the library itself. A new type is a row in `MIGRATED`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from activities.volumes.migration import topology
from activities.volumes.migration.handles import MigrationError, azure_account, ebs_volume, gce_disk

Json = dict[str, Any]
_MANAGED: Final = "Managed"
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
    try:
        left = {field: value for field, value in spec.items() if field != kind}
        return row.translate({**volume, "metadata": volume.get("metadata") or {}, "spec": left}, dict(source))
    except MigrationError as error:
        raise MigrationError(f"failed to translate in-tree pv to CSI: {error}") from None
    except (TypeError, ValueError, AttributeError, KeyError):
        raise MigrationError(f"failed to translate in-tree pv to CSI: spec.{kind} is not valid") from None


def _ebs(volume: Json, source: Json) -> Json:
    try:
        handle = ebs_volume(_text(source, "volumeID"))
    except MigrationError as error:
        raise MigrationError(f"failed to translate Kubernetes ID to EBS Volume ID {error}") from None
    attributes = {"partition": str(int(source.get("partition") or 0))}
    made = _with_source(volume, "ebs.csi.aws.com", handle, attributes, of=source)
    return topology.with_driver_zone(made, "topology.ebs.csi.aws.com/zone")


def _gce(volume: Json, source: Json) -> Json:
    labels = volume["metadata"].get("labels") or {}
    zones = labels.get(topology.OLD_ZONE) or labels.get(topology.ZONE) or ""
    handle = gce_disk(_text(source, "pdName"), zones.split(topology.BETWEEN_ZONES))
    attributes = {"partition": str(int(source.get("partition") or 0) or "")}
    made = _with_source(volume, "pd.csi.storage.gke.io", handle, attributes, of=source)
    made = topology.with_driver_zone(made, "topology.gke.io/zone")
    modes = made["spec"].get("accessModes")
    if modes is None:
        return made
    once = {"ReadWriteOnce", "ReadWriteMany"} & set(modes) or "ReadOnlyMany" not in modes
    return {**made, "spec": {**made["spec"], "accessModes": ["ReadWriteOnce" if once else "ReadOnlyMany"]}}


def _cinder(volume: Json, source: Json) -> Json:
    made = _with_source(volume, "cinder.csi.openstack.org", _text(source, "volumeID"), {}, of=source)
    return topology.with_driver_zone(made, "topology.cinder.csi.openstack.org/zone")


def _azure_disk(volume: Json, source: Json) -> Json:
    kind = source.get("kind")
    if kind is not None and str(kind).lower() != _MANAGED.lower():
        raise MigrationError(f"kind({kind}) is not supported in csi migration")
    attributes = {
        name: str(source[field])
        for name, field in (("cachingmode", "cachingMode"), ("fstype", "fsType"))
        if source.get(field) is not None
    }
    attributes["kind"] = _MANAGED
    return _with_source(volume, "disk.csi.azure.com", _text(source, "diskURI"), attributes, of=source)


def _azure_file(volume: Json, source: Json) -> Json:
    metadata, claim = volume["metadata"], volume["spec"].get("claimRef") or {}
    group = (metadata.get("annotations") or {}).get(_RESOURCE_GROUP) or ""
    given = source.get("secretNamespace")
    namespace = str(claim.get("namespace") or "") if given is None else str(given)
    if not namespace:
        raise MigrationError("could not find a secret namespace in PersistentVolumeSource or ClaimRef")
    secret, share = _text(source, "secretName"), _text(source, "shareName")
    handle = "#".join((group, azure_account(secret), share, metadata.get("name") or "", namespace))
    made = _with_source(
        volume, "file.csi.azure.com", handle, {"sharename": share}, of={"readOnly": source.get("readOnly")}
    )
    made["spec"]["csi"]["nodeStageSecretRef"] = {"name": secret, "namespace": namespace}
    return made


def _vsphere(volume: Json, source: Json) -> Json:
    policy = source.get("storagePolicyName")
    attributes = {"storagepolicyname": str(policy)} if policy else {}
    path, plain = _text(source, "volumePath"), {"fsType": source.get("fsType")}
    made = _with_source(volume, "csi.vsphere.vmware.com", path, attributes, of=plain)
    return topology.with_vsphere_topology(made, "topology.csi.vmware.com/zone", "topology.csi.vmware.com/region")


def _portworx(volume: Json, source: Json) -> Json:
    plain = {"fsType": source.get("fsType")}
    made = _with_source(volume, "pxd.portworx.com", _text(source, "volumeID"), {}, of=plain)
    annotations = volume["metadata"].get("annotations") or {}
    if all(one in annotations for one in _AUTH_SECRET):
        name, namespace = (annotations[one] for one in _AUTH_SECRET)
        made["spec"]["csi"] |= {field: {"name": name, "namespace": namespace} for field in _SECRETS}
    return made


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
    "awsElasticBlockStore": MigratedPlugin("kubernetes.io/aws-ebs", "ebs.csi.aws.com", _ebs),
    "azureDisk": MigratedPlugin("kubernetes.io/azure-disk", "disk.csi.azure.com", _azure_disk),
    "azureFile": MigratedPlugin("kubernetes.io/azure-file", "file.csi.azure.com", _azure_file),
    "cinder": MigratedPlugin("kubernetes.io/cinder", "cinder.csi.openstack.org", _cinder),
    "gcePersistentDisk": MigratedPlugin("kubernetes.io/gce-pd", "pd.csi.storage.gke.io", _gce),
    "portworxVolume": MigratedPlugin("kubernetes.io/portworx-volume", "pxd.portworx.com", _portworx),
    "vsphereVolume": MigratedPlugin("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com", _vsphere),
}
"""By the field of a PersistentVolume's spec."""
