"""The part of CSINode and Node objects that describes this node's CSI drivers.

Pure; used by `csi_node`. Entries of other drivers and of administrators are kept (pkg/volume/csi/nodeinfomanager). What the API server
would refuse is known here before it is sent, so that a driver is told also while the API server is away.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from activities.clients.csi_drivers import Driver
from activities.volumes.migration.translation import MIGRATED
from proto.messages import shorten
from workflows.decide.manifest.fields.names import label_value, qualified_name

NODE_ID: Final = "csi.volume.kubernetes.io/nodeid"
MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"
_MIGRATED: Final = sorted(one.plugin for one in MIGRATED.values())
_MOST: Final = 2**31 - 1
_LONGEST_ID: Final = 256
"""Bytes (pkg/apis/storage/validation csiNodeIDLongerMaxLength)."""
UPDATING: Final = "error updating {kind} object with CSI driver node info"
"""How the kubelet begins when the Node or the CSINode cannot be written."""

Json = dict[str, Any]


class TopologyCollision(Exception):
    """A driver's topology contradicts the node's labels; the message is the kubelet's."""


def fault_of(driver: Driver) -> str:
    """Return why what a driver says about this node cannot be written, in the kubelet's and the API's words; empty if it can be."""
    if not driver.node_id:
        return "error adding CSI driver node info: driverNodeID must not be empty"
    if faults := "; ".join(_label_faults(driver.topology)):
        return shorten(f"{UPDATING.format(kind='Node')}: {faults}")
    if len(driver.node_id.encode()) > _LONGEST_ID:
        return f"{UPDATING.format(kind='CSINode')}: nodeID: must be {_LONGEST_ID} characters or less"
    return ""


def _label_faults(topology: Mapping[str, str]) -> Iterator[str]:
    for key, value in sorted(topology.items()):
        yield from (f"metadata.labels: Invalid value: {json.dumps(key)}: {one}" for one in qualified_name(key))
        yield from (f"metadata.labels: Invalid value: {json.dumps(value)}: {one}" for one in label_value(value))


def new_csi_node(node: Mapping[str, Any]) -> Json:
    """Return the CSINode of a node that has none; its owner is the Node."""
    metadata = node["metadata"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": metadata["name"], "uid": metadata["uid"]}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {
            "name": metadata["name"],
            "ownerReferences": [owner],
            "annotations": {MIGRATED_PLUGINS: ",".join(_MIGRATED)},
        },
        "spec": {"drivers": []},
    }


def is_of(csi_node: Mapping[str, Any], node: Mapping[str, Any]) -> bool:
    """Report whether a CSINode belongs to this Node, not to an earlier one of the same name."""
    owners = csi_node["metadata"].get("ownerReferences") or ()
    return any(one.get("kind") == "Node" and one.get("uid") == node["metadata"]["uid"] for one in owners)


def with_migrated_plugins(csi_node: Json) -> Json:
    """Name the plugins whose volumes go to CSI drivers here, by which controllers decide; the same object if it does.

    Source: nodeinfomanager setMigrationAnnotation.
    """
    metadata = csi_node["metadata"]
    annotations = metadata.get("annotations") or {}
    if set((annotations.get(MIGRATED_PLUGINS) or "").split(",")) == set(_MIGRATED):
        return csi_node
    annotations = {**annotations, MIGRATED_PLUGINS: ",".join(_MIGRATED)}
    return {**csi_node, "metadata": {**metadata, "annotations": annotations}}


def with_drivers(csi_node: Json, drivers: Mapping[str, Driver | None]) -> Json:
    """Set drivers in a CSINode by name; None removes one. Returns the same object if nothing changes."""
    spec = csi_node.get("spec") or {}
    before = list(spec.get("drivers") or ())
    after = [one for one in before if one["name"] not in drivers or _is_listed(one, drivers[one["name"]])]
    known = {one["name"] for one in after}
    after += [_entry(one) for one in drivers.values() if one is not None and one.name not in known]
    return csi_node if after == before else {**csi_node, "spec": {**spec, "drivers": after}}


def node_patch(node: Mapping[str, Any], drivers: Mapping[str, Driver | None]) -> Json:
    """Return the merge patch for the Node's annotations and labels, {} if nothing changes. Raises TopologyCollision."""
    metadata = node["metadata"]
    labels: Mapping[str, str] = metadata.get("labels") or {}
    annotation = (metadata.get("annotations") or {}).get(NODE_ID)
    ids = _ids(annotation)
    wanted: dict[str, str] = {}
    for name, driver in drivers.items():
        if driver is None:
            ids.pop(name, None)
            continue
        ids[name] = driver.node_id
        for key, value in driver.topology.items():
            if (known := {**labels, **wanted}.get(key, value)) != value:
                raise TopologyCollision(
                    f'detected topology value collision: driver reported "{key}":"{value}" but existing label is "{key}":"{known}"'
                )
            wanted |= {key: value} if key not in labels else {}
    patch: Json = {"labels": wanted} if wanted else {}
    if ids != _ids(annotation):
        patch["annotations"] = {NODE_ID: json.dumps(ids, separators=(",", ":")) if ids else None}
    return {"metadata": patch} if patch else {}


def _ids(annotation: str | None) -> dict[str, str]:
    try:
        found = json.loads(annotation or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _entry(driver: Driver) -> Json:
    entry: Json = {"name": driver.name, "nodeID": driver.node_id, "topologyKeys": sorted(driver.topology)}
    if driver.max_volumes > 0:
        entry["allocatable"] = {"count": min(driver.max_volumes, _MOST)}
    return entry


def _is_listed(one: Mapping[str, Any], driver: Driver | None) -> bool:
    if driver is None:
        return False
    wanted = _entry(driver)
    given = {**one, "topologyKeys": sorted(one.get("topologyKeys") or ())}
    return {key: given.get(key) for key in (*wanted, "allocatable")} == {
        key: wanted.get(key) for key in (*wanted, "allocatable")
    }
