"""Does each volume of a cloud become one of its CSI driver? The Kubernetes library itself is asked in tests/cluster/decisions/migration."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activities.volumes.migration.handles import MigrationError
from activities.volumes.migration.translation import MIGRATED, inline_volume, migrated_volume

ZONE = "topology.kubernetes.io/zone"


def volume(kind: str, source: Any, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """Return a PersistentVolume of a type."""
    metadata = {"name": "pv1", **({"labels": labels} if labels else {})}
    return {"metadata": metadata, "spec": {kind: source, **spec}}


@pytest.mark.parametrize(
    ("kind", "source", "driver", "handle"),
    [
        pytest.param("awsElasticBlockStore", {"volumeID": "vol-1"}, "ebs.csi.aws.com", "vol-1", id="ebs"),
        pytest.param("awsElasticBlockStore", {"volumeID": "aws://a/vol-2"}, "ebs.csi.aws.com", "vol-2", id="ebs-url"),
        pytest.param(
            "gcePersistentDisk",
            {"pdName": "d"},
            "pd.csi.storage.gke.io",
            "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d",
            id="gce",
        ),
        pytest.param("cinder", {"volumeID": "c"}, "cinder.csi.openstack.org", "c", id="cinder"),
        pytest.param("azureDisk", {"diskURI": "/d", "kind": "managed"}, "disk.csi.azure.com", "/d", id="azure-disk"),
        pytest.param(
            "azureFile",
            {"secretName": "azure-storage-account-acc-secret", "shareName": "s", "secretNamespace": "ns"},
            "file.csi.azure.com",
            "#acc#s#pv1#ns",
            id="azure-file",
        ),
        pytest.param("vsphereVolume", {"volumePath": "[d] v"}, "csi.vsphere.vmware.com", "[d] v", id="vsphere"),
        pytest.param("portworxVolume", {"volumeID": "7"}, "pxd.portworx.com", "7", id="portworx"),
    ],
)
def test_a_volume_of_a_cloud(kind: str, source: dict[str, Any], driver: str, handle: str) -> None:
    """It has one source afterwards, that of the driver in the table; the stored object stays."""
    given_volume = volume(kind, source)
    found = migrated_volume(given_volume)
    assert (found["spec"]["csi"]["driver"], found["spec"]["csi"]["volumeHandle"]) == (driver, handle)
    assert MIGRATED[kind].driver == driver
    assert set(found["spec"]) == {"csi"}
    assert set(given_volume["spec"]) == {kind}


def test_its_zone_is_its_drivers() -> None:
    """From the affinity, and else from a label."""
    found = migrated_volume(volume("gcePersistentDisk", {"pdName": "d"}, {ZONE: "us-central1-a__us-central1-b"}))
    assert found["spec"]["csi"]["volumeHandle"] == "projects/UNSPECIFIED/regions/us-central1/disks/d"
    [term] = found["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    values = ["us-central1-a", "us-central1-b"]
    assert term["matchExpressions"] == [{"key": "topology.gke.io/zone", "operator": "In", "values": values}]


def test_other_volumes_stay() -> None:
    """The same object."""
    for one in (volume("nfs", {"server": "s"}), volume("csi", {}), {}, {"spec": None}):
        assert migrated_volume(one) is one


@pytest.mark.parametrize(
    ("kind", "source", "words"),
    [
        pytest.param("azureDisk", {"kind": "Shared"}, r"kind\(Shared\) is not supported in csi migration", id="kind"),
        pytest.param("azureFile", {"secretName": "s"}, "could not find a secret namespace", id="namespace"),
        pytest.param("awsElasticBlockStore", {"volumeID": "aws://x/y"}, "Invalid format for AWS volume", id="ebs"),
        pytest.param("awsElasticBlockStore", {"volumeID": "v", "partition": "x"}, "is not valid", id="no-number"),
        pytest.param("cinder", "text", "is not valid", id="no-object"),
        pytest.param("azureFile", [1], "is not valid", id="a-list"),
    ],
)
def test_a_volume_that_cannot_be_translated(kind: str, source: Any, words: str) -> None:
    """It is refused with the library's words."""
    with pytest.raises(MigrationError, match=f"failed to translate in-tree pv to CSI: .*{words}"):
        migrated_volume(volume(kind, source))


def test_a_volume_of_a_pods_spec() -> None:
    """It becomes a PersistentVolume, which no zone limits; its name is part of the path where it is staged."""
    found = inline_volume(
        {"name": "data", "gcePersistentDisk": {"pdName": "d", "readOnly": True, "partition": 2}}, "ns"
    )
    handle = "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"
    csi = {"driver": "pd.csi.storage.gke.io", "volumeHandle": handle, "volumeAttributes": {"partition": "2"}}
    assert found == {
        "metadata": {"name": "pd.csi.storage.gke.io-d"},
        "spec": {"accessModes": ["ReadOnlyMany"], "volumeMode": "Filesystem", "csi": {**csi, "readOnly": True}},
    }
    other = {"name": "data", "emptyDir": {}}
    assert inline_volume(other, "ns") is other


def test_a_policy_for_which_the_library_panics() -> None:
    """It is the driver's, as that of a PersistentVolume is."""
    found = inline_volume({"name": "d", "vsphereVolume": {"volumePath": "v", "storagePolicyName": "gold"}}, "ns")
    assert found["spec"]["csi"]["volumeAttributes"] == {"storagepolicyname": "gold"}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(sorted(MIGRATED)), json_values, json_values, json_values)
def test_anything_is_translated_or_refused(kind: str, source: Any, affinity: Any, labels: Any) -> None:
    """An object from a file may have any shape."""
    made = {"metadata": {"name": "pv1", "labels": labels}, "spec": {kind: source, "nodeAffinity": affinity}}
    with suppress(MigrationError):
        assert source is None or set(migrated_volume(made)["spec"]) == {"csi", "nodeAffinity"}


@given(st.sampled_from(sorted(MIGRATED)), json_values, st.text(max_size=5), st.text(max_size=5))
def test_any_volume_of_a_pod_is_translated_or_refused(kind: str, source: Any, name: str, namespace: str) -> None:
    """The same of a pod's own."""
    with suppress(MigrationError):
        found = inline_volume({"name": name, kind: source}, namespace)
        assert source is None or found["spec"]["csi"]["driver"] == MIGRATED[kind].driver
