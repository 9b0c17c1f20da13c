"""The smallest strategic merge patch between two statuses of a pod, as the kubelet sends it.

It contains the pod's UID, so the API server refuses it for another pod of the same name (pkg/util/pod/pod.go PatchPodStatus).
Conditions are merged by type, so those of others are left alone; lists of containers are replaced, because the API does not
merge them.
"""

from collections.abc import Mapping
from typing import Any, Final

from worker.status.normalize import Json, same

_REPLACED: Final = frozenset({"podIPs", "hostIPs"})
"""Lists that the API would merge by the items' address."""


def status_patch(uid: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Json | None:
    """Return the patch from `old` to `new`, both normalized; None if they are equal."""
    changes = _changes(old, new)
    return {"metadata": {"uid": uid}, "status": changes} if changes else None


def _changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Json:
    """Return the differences between two objects; null for what is removed."""
    found: Json = {}
    for name in old.keys() | new.keys():
        before, after = old.get(name), new.get(name)
        if name == "conditions":
            found |= _condition_changes(before or [], after or [])
        elif same(before, after):
            continue
        elif isinstance(before, Mapping) and isinstance(after, Mapping):
            found[name] = _changes(before, after)
        elif name in _REPLACED and after:
            found[name] = [{"$patch": "replace"}, *after]
        else:
            found[name] = after
    return found


def _condition_changes(old: list[Json], new: list[Json]) -> Json:
    """Return the conditions that differ, by type, and the order of all."""
    before, after = {one["type"]: one for one in old}, {one["type"]: one for one in new}
    changed = [
        {"type": name, **changes}
        for name, one in after.items()
        if (changes := _changes(before.get(name, {}), one) if name in before else one)
    ]
    gone = [{"$patch": "delete", "type": name} for name in before if name not in after]
    if not changed and not gone:
        return {}
    return {"$setElementOrder/conditions": [{"type": name} for name in after], "conditions": [*changed, *gone]}
