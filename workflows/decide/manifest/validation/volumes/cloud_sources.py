"""Rules about volumes of clouds in a pod's spec.

Source: pkg/apis/core/validation/validation.go, validateAWSElasticBlockStoreVolumeSource, validateGCEPersistentDiskVolumeSource,
validateCinderVolumeSource, validateAzureFile, validateAzureDisk, validateVsphereVolumeSource, validatePortworxVolumeSource.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from workflows.decide.manifest.fields.field_errors import invalid, not_supported, required

Source = Mapping[str, Any]

_PARTITIONS: Final = range(256)
_PARTITION_FAULT: Final = "must be between 1 and 255, inclusive"
_CACHING: Final = ("None", "ReadOnly", "ReadWrite")
_MANAGED: Final = "Managed"
_KINDS: Final = ("Dedicated", _MANAGED, "Shared")
_MANAGED_URI: Final = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
_BLOB_URI: Final = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"


def aws_elastic_block_store(source: Source, path: str) -> Iterator[str]:
    """Validate an awsElasticBlockStore volume."""
    yield from _required(source, path, "volumeID")
    yield from _partition(source, path)


def gce_persistent_disk(source: Source, path: str) -> Iterator[str]:
    """Validate a gcePersistentDisk volume, which the API calls persistentDisk in its errors."""
    path = f"{path.removesuffix('gcePersistentDisk')}persistentDisk"
    yield from _required(source, path, "pdName")
    yield from _partition(source, path)


def cinder(source: Source, path: str) -> Iterator[str]:
    """Validate a cinder volume."""
    yield from _required(source, path, "volumeID")
    if "secretRef" in source:
        yield from _required(source["secretRef"], f"{path}.secretRef", "name")


def azure_file(source: Source, path: str) -> Iterator[str]:
    """Validate an azureFile volume."""
    yield from _required(source, path, "secretName", "shareName")


def azure_disk(source: Source, path: str) -> Iterator[str]:
    """Validate an azureDisk volume, whose default kind is Shared."""
    yield from _required(source, path, "diskName", "diskURI")
    caching, kind, uri = source.get("cachingMode"), source.get("kind"), source.get("diskURI", "")
    if caching is not None and caching not in _CACHING:
        yield not_supported(f"{path}.cachingMode", caching, _CACHING)
    if kind is not None and kind not in _KINDS:
        yield not_supported(f"{path}.kind", kind, _KINDS)
    if kind == _MANAGED and not uri.startswith("/subscriptions/"):
        yield not_supported(f"{path}.diskURI", uri, (_MANAGED_URI,))
    if kind not in (None, _MANAGED) and not uri.startswith("https://"):
        yield not_supported(f"{path}.diskURI", uri, (_BLOB_URI,))


def vsphere_volume(source: Source, path: str) -> Iterator[str]:
    """Validate a vsphereVolume."""
    yield from _required(source, path, "volumePath")


def portworx_volume(source: Source, path: str) -> Iterator[str]:
    """Validate a portworxVolume."""
    yield from _required(source, path, "volumeID")


def _required(source: Source, path: str, *fields: str) -> Iterator[str]:
    yield from (required(f"{path}.{field}") for field in fields if not source.get(field))


def _partition(source: Source, path: str) -> Iterator[str]:
    if (partition := source.get("partition", 0)) not in _PARTITIONS:
        yield invalid(f"{path}.partition", partition, _PARTITION_FAULT)
