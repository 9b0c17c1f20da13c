"""Do CSINode and Node list this node's drivers, and keep what others wrote? (nodeinfomanager_test.go)"""

from typing import Any

import pytest

from activities.clients.csi_drivers import Driver
from worker.api_objects.csi_node_objects import (
    MIGRATED_PLUGINS,
    NODE_ID,
    TopologyCollision,
    is_of,
    new_csi_node,
    node_patch,
    with_drivers,
    with_migrated_plugins,
)

NODE: dict[str, Any] = {"metadata": {"name": "n1", "uid": "u1", "labels": {"zone": "a"}}}
DISK = Driver("disk", "sock", node_id="n-1", max_volumes=8, topology={"zone": "a", "rack": "7"})
DISK_SAID = {"name": "disk", "nodeID": "n-1", "topologyKeys": ["rack", "zone"], "allocatable": {"count": 8}}
ALL_MIGRATED = (
    "kubernetes.io/aws-ebs,kubernetes.io/azure-disk,kubernetes.io/azure-file,kubernetes.io/cinder,kubernetes.io/gce-pd,"
    "kubernetes.io/portworx-volume,kubernetes.io/vsphere-volume"
)
OTHER = {"name": "other", "nodeID": "x", "topologyKeys": None}


def having(*drivers: dict[str, Any]) -> dict[str, Any]:
    """A CSINode with some drivers."""
    return {**new_csi_node(NODE), "spec": {"drivers": list(drivers)}}


@pytest.mark.parametrize("given", ["", "kubernetes.io/gce-pd", "kubernetes.io/aws-ebs,example.com/other"])
def test_the_plugins_that_csi_drivers_took_over(given: str) -> None:
    """Controllers decide by them whether they attach a volume of a cloud for its driver."""
    before = having(OTHER)
    before["metadata"] = {
        **before["metadata"],
        "annotations": {"a": "b", **({MIGRATED_PLUGINS: given} if given else {})},
    }
    after = with_migrated_plugins(before)
    assert after["spec"] == before["spec"]
    assert after["metadata"]["annotations"] == {"a": "b", MIGRATED_PLUGINS: ALL_MIGRATED}
    assert with_migrated_plugins(after) is after
    shuffled = ",".join(reversed(ALL_MIGRATED.split(",")))
    after["metadata"]["annotations"][MIGRATED_PLUGINS] = shuffled
    assert with_migrated_plugins(after) is after
    assert new_csi_node(NODE)["metadata"]["annotations"] == {MIGRATED_PLUGINS: ALL_MIGRATED}


@pytest.mark.parametrize(
    ("before", "drivers", "after"),
    [
        pytest.param((), {"disk": DISK}, (DISK_SAID,), id="a-first-one"),
        pytest.param((OTHER,), {"disk": DISK}, (OTHER, DISK_SAID), id="beside-anothers"),
        pytest.param(
            ({**DISK_SAID, "nodeID": "old"}, OTHER), {"disk": DISK}, (OTHER, DISK_SAID), id="one-that-says-another-id"
        ),
        pytest.param(
            (DISK_SAID,),
            {"disk": Driver("disk", "", node_id="n-1")},
            ({"name": "disk", "nodeID": "n-1", "topologyKeys": []},),
            id="one-that-says-no-more",
        ),
        pytest.param((DISK_SAID, OTHER), {"disk": None}, (OTHER,), id="one-that-went"),
        pytest.param(
            (),
            {"disk": Driver("disk", "", node_id="n", max_volumes=2**40)},
            ({"name": "disk", "nodeID": "n", "topologyKeys": [], "allocatable": {"count": 2**31 - 1}},),
            id="more-volumes-than-the-api-can-say",
        ),
    ],
)
def test_a_csi_node(
    before: tuple[dict[str, Any], ...], drivers: dict[str, Driver | None], after: tuple[Any, ...]
) -> None:
    """Each driver once."""
    assert with_drivers(having(*before), drivers)["spec"]["drivers"] == list(after)


@pytest.mark.parametrize(
    "drivers", [{}, {"disk": DISK}, {"gone": None}], ids=["nothing-new", "the-same", "one-unknown"]
)
def test_what_is_said_already_is_not_written(drivers: dict[str, Driver | None]) -> None:
    """The order of the topology does not matter."""
    known = having({**DISK_SAID, "topologyKeys": ["zone", "rack"]}, OTHER)
    assert with_drivers(known, drivers) is known


def test_a_csi_node_is_its_nodes() -> None:
    """One of an earlier Node of the same name is not."""
    assert is_of(new_csi_node(NODE), NODE)
    assert not is_of(new_csi_node(NODE), {"metadata": {"name": "n1", "uid": "u2"}})


def test_a_driver_in_the_node() -> None:
    """Its id in the annotation, its topology as labels; no patch if both are there; removed when it deregisters."""
    patch = node_patch(NODE, {"disk": DISK})
    assert patch == {"metadata": {"labels": {"rack": "7"}, "annotations": {NODE_ID: '{"disk":"n-1"}'}}}
    known = {
        "metadata": {
            **NODE["metadata"],
            "labels": {"zone": "a", "rack": "7"},
            "annotations": {NODE_ID: '{"disk":"n-1"}'},
        }
    }
    assert node_patch(known, {"disk": DISK}) == {}
    assert node_patch(known, {"disk": None}) == {"metadata": {"annotations": {NODE_ID: None}}}


def test_a_driver_that_says_the_node_lies_elsewhere() -> None:
    """It is reported, and no label is changed."""
    with pytest.raises(TopologyCollision, match='driver reported "zone":"b" but existing label is "zone":"a"'):
        node_patch(NODE, {"disk": Driver("disk", "", topology={"zone": "b"})})
