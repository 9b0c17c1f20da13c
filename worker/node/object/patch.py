"""The smallest strategic merge patch between two versions of a Node, and whether one is needed.

Used by `own_node`; the kubelet uses PatchNodeStatus (k8s.io/component-helpers node/util). The patch contains the UID, so that
it cannot apply to a Node that was deleted and created again.
"""

from collections.abc import Mapping
from typing import Any, Final

from proto.kubernetes.resources.quantity import QuantityError, parse_quantity

Json = dict[str, Any]

_AMOUNTS: Final = ("capacity", "allocatable")
_METADATA: Final = ("labels", "annotations")


def changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Report whether two Nodes differ in what this node reports; the heartbeat time does not count."""
    return any(
        _without_empty(old["metadata"].get(key)) != _without_empty(new["metadata"].get(key)) for key in _METADATA
    ) or (_status(old.get("status") or {}) != _status(new.get("status") or {}))


def node_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> Json:
    """Return the patch from `old` to `new`."""
    metadata = {"uid": old["metadata"]["uid"]}
    for key in _METADATA:
        if parts := _map_patch(old["metadata"].get(key) or {}, new["metadata"].get(key) or {}):
            metadata[key] = parts
    was, becomes = old.get("status") or {}, new.get("status") or {}
    status: Json = {}
    for key in dict.fromkeys((*was, *becomes)):
        before, after = was.get(key), becomes.get(key)
        if _without_empty({key: before}) == _without_empty({key: after}):
            continue
        if (parts := _field(key, before, after)) or key != "conditions":
            status[key] = parts
    return {"metadata": metadata} | ({"status": status} if status else {})


def _field(key: str, before: Any, after: Any) -> Any:
    if key == "conditions":
        known = {one["type"]: one for one in before or ()}
        return [
            {"type": one["type"], **_map_patch(known.get(one["type"], {}), one)}
            for one in after
            if one != known.get(one["type"])
        ]
    if key == "addresses" and before:  # the API merges by type, though there may be two of a type
        return [*after, {"$patch": "replace"}]
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        return _map_patch(before, after)
    return after


def _map_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> Json:
    """Return what is new or different, and null for what is gone."""
    found: Json = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            if inner := _map_patch(old, value):
                found[key] = inner
        elif value != old:
            found[key] = value
    return found


def _status(status: Mapping[str, Any]) -> Any:
    found = {key: value for key, value in status.items() if key != "conditions"}
    for key in _AMOUNTS:
        found[key] = {name: _amount(text) for name, text in (status.get(key) or {}).items()}
    without = [
        {name: value for name, value in one.items() if name != "lastHeartbeatTime"}
        for one in status.get("conditions") or ()
    ]
    return _without_empty({**found, "conditions": {one["type"]: one for one in without}})


def _amount(text: str) -> Any:
    try:
        return parse_quantity(text).nanos
    except QuantityError:
        return text


def _without_empty(value: Any) -> Any:
    """Remove empty values, as the API server does."""
    if isinstance(value, Mapping):
        inner = {key: _without_empty(one) for key, one in value.items()}
        return {key: one for key, one in inner.items() if one not in (None, "", {}, [])}
    if isinstance(value, list):
        return [_without_empty(one) for one in value]
    return value
