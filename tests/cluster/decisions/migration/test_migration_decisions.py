"""Does tempolet find the volume of a CSI driver that the kubelet's own library finds for a volume of a cloud?"""

from pathlib import Path

import pytest

from activities.volumes.migration import topology, translation
from activities.volumes.migration.translation import MIGRATED
from tests.cluster.decisions.migration.comparison import compare

SOME, MANY = 5_000, 100_000


def test_some_cases_are_alike(kube_binaries: Path) -> None:
    """And each type is among them, with those that cannot be translated."""
    tally = compare(kube_binaries, 0, SOME)
    assert not tally.different, str(tally)
    drivers = {one.driver for one in MIGRATED.values()}
    refused = {f"{one} refused" for one in ("awsElasticBlockStore", "azureDisk", "azureFile", "gcePersistentDisk")}
    inline = {f"inline {one}" for one in drivers} | {"inline nfs stays", "inline vsphereVolume panics"}
    inline |= {f"inline {one} refused" for one in ("awsElasticBlockStore", "azureDisk")}
    assert set(tally.deeds) == drivers | refused | {"nfs"} | inline


@pytest.mark.stress
def test_many_cases_are_alike(kube_binaries: Path) -> None:
    """From other seeds than the ones of every run."""
    tally = compare(kube_binaries, SOME, MANY)
    assert not tally.different, str(tally)


@pytest.mark.parametrize("name", ["_READERS", "_ONE"])
def test_a_wrong_access_mode_is_found(kube_binaries: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Of a volume in a pod's spec."""
    monkeypatch.setattr(translation, name, ("ReadWriteMany",))
    assert compare(kube_binaries, 0, 1000).different


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        pytest.param("_labels_used", lambda _: (topology.ZONE, topology.REGION), id="old-labels-are-not-known"),
        pytest.param("_has_values", lambda *_: False, id="labels-before-affinity"),
    ],
)
def test_a_wrong_rule_is_found(kube_binaries: Path, monkeypatch: pytest.MonkeyPatch, name: str, wrong: object) -> None:
    """The cases are not too simple to tell."""
    monkeypatch.setattr(topology, name, wrong)
    assert compare(kube_binaries, 0, 1000).different
