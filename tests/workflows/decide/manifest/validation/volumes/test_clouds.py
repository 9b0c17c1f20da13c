"""Are volumes of clouds validated as by the API (validation_test.go TestValidateVolumes)?"""

from typing import Any

import pytest

from tests.workflows.decide.pods import pod
from workflows.decide.manifest.defaults.defaults import default_pod, default_volume
from workflows.decide.manifest.fields.structure import read_structure
from workflows.decide.manifest.fields.supported import POD
from workflows.decide.manifest.validation.pod import validate_pod

RANGE = "must be between 1 and 255, inclusive"
URI = "/subscriptions/s/resourcegroups/g/providers/microsoft.compute/disks/d"
BLOB = "https://account.blob.core.windows.net/container/disk.vhd"
DISK = {"diskName": "d", "diskURI": URI, "kind": "Managed"}
MANAGED = '"/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"'
SHARED = '"https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"'


@pytest.mark.parametrize(
    ("kind", "source", "faults"),
    [
        pytest.param("awsElasticBlockStore", {"volumeID": "v", "partition": 255}, [], id="ebs"),
        pytest.param(
            "awsElasticBlockStore", {}, ["awsElasticBlockStore.volumeID: Required value"], id="ebs-without-id"
        ),
        pytest.param(
            "awsElasticBlockStore",
            {"volumeID": "v", "partition": 256},
            [f"awsElasticBlockStore.partition: Invalid value: 256: {RANGE}"],
            id="ebs-partition",
        ),
        pytest.param("gcePersistentDisk", {"pdName": "d", "fsType": "ext4"}, [], id="gce"),
        pytest.param(
            "gcePersistentDisk",
            {"partition": -1},
            ["persistentDisk.pdName: Required value", f"persistentDisk.partition: Invalid value: -1: {RANGE}"],
            id="gce-by-the-name-that-the-api-has-for-it",
        ),
        pytest.param("cinder", {"volumeID": "v", "secretRef": {"name": "s"}}, [], id="cinder"),
        pytest.param(
            "cinder",
            {"secretRef": {}},
            ["cinder.volumeID: Required value", "cinder.secretRef.name: Required value"],
            id="cinder-without-anything",
        ),
        pytest.param("azureFile", {"secretName": "s", "shareName": "h"}, [], id="azure-file"),
        pytest.param(
            "azureFile",
            {},
            ["azureFile.secretName: Required value", "azureFile.shareName: Required value"],
            id="azure-file-without-anything",
        ),
        pytest.param("azureDisk", DISK, [], id="azure-disk"),
        pytest.param("azureDisk", {"diskName": "d", "diskURI": BLOB}, [], id="azure-disk-shared-by-default"),
        pytest.param(
            "azureDisk",
            {"kind": "Managed"},
            [
                "azureDisk.diskName: Required value",
                "azureDisk.diskURI: Required value",
                f'azureDisk.diskURI: Unsupported value: "": supported values: {MANAGED}',
            ],
            id="azure-disk-without-names",
        ),
        pytest.param(
            "azureDisk",
            DISK | {"kind": "Dedicated"},
            [f'azureDisk.diskURI: Unsupported value: "{URI}": supported values: {SHARED}'],
            id="azure-disk-of-another-kind",
        ),
        pytest.param(
            "azureDisk",
            DISK | {"cachingMode": "x"},
            ['azureDisk.cachingMode: Unsupported value: "x": supported values: "None", "ReadOnly", "ReadWrite"'],
            id="azure-disk-caching",
        ),
        pytest.param(
            "azureDisk",
            {"diskName": "d", "diskURI": BLOB, "kind": "x"},
            ['azureDisk.kind: Unsupported value: "x": supported values: "Dedicated", "Managed", "Shared"'],
            id="azure-disk-kind",
        ),
        pytest.param("vsphereVolume", {"volumePath": "[ds] v"}, [], id="vsphere"),
        pytest.param("vsphereVolume", {}, ["vsphereVolume.volumePath: Required value"], id="vsphere-without-path"),
        pytest.param("portworxVolume", {"volumeID": "v"}, [], id="portworx"),
        pytest.param("portworxVolume", {}, ["portworxVolume.volumeID: Required value"], id="portworx-without-id"),
    ],
)
def test_a_volume_of_a_cloud(kind: str, source: dict[str, Any], faults: list[str]) -> None:
    """Decoded, defaulted and validated."""
    read = read_structure(pod(volumes=[{"name": "disk", kind: source}]), POD)
    found = (*read.faults, *read.not_yet) or validate_pod(default_pod(read.content))
    assert list(found) == [f"spec.volumes[0].{fault}" for fault in faults]


def test_the_defaults_of_an_azure_disk() -> None:
    """Of its own fields only."""
    filled = {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"}
    assert default_volume({"name": "d", "azureDisk": {"diskURI": "u"}})["azureDisk"] == {"diskURI": "u", **filled}
    given = {"fsType": "xfs", "kind": "Managed"}
    assert default_volume({"name": "d", "azureDisk": given})["azureDisk"] == filled | given
