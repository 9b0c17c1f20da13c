"""A pod's status written as the API server keeps it, so that two of them can be compared.

Asked by `merge` and `patch`. The API knows whole seconds, canonical quantities and no nulls; the kubelet sorts what it lists by
name, init containers in the spec's order (pkg/kubelet/status/status_manager.go normalizeStatus). What containers said at their end
is cut to its share where the status is made (workflows/decide/status/messages.py).
"""

from collections.abc import Mapping
from typing import Any, Final

from proto.kubernetes.resources.quantity import QuantityError, canonical_quantity

Json = dict[str, Any]

_TIMES: Final = frozenset({"startTime", "lastTransitionTime", "lastProbeTime", "startedAt", "finishedAt"})
_AMOUNTS: Final = frozenset({"allocatedResources", "limits", "requests"})
_SORTED: Final = ("containerStatuses", "ephemeralContainerStatuses")
_TO_SECONDS: Final = len("2026-01-02T03:04:05")


def normalize(status: Mapping[str, Any]) -> Json:
    """Copy a status as the API would give it back."""
    copy = _copied(status)
    assert isinstance(copy, dict)
    for field in _SORTED:
        if field in copy:
            copy[field].sort(key=lambda one: one["name"])
    return copy


def same(one: Any, other: Any) -> bool:
    """Say whether two values of a status mean the same: what is empty counts as absent, for the API leaves it out."""
    return bool(_lean({"": one}) == _lean({"": other}))


def _copied(value: Any, field: str = "") -> Any:
    if isinstance(value, Mapping):
        if field in _AMOUNTS:
            return {name: _amount(one) for name, one in value.items()}
        return {name: _copied(one, name) for name, one in value.items() if one is not None}
    if isinstance(value, (list, tuple)):
        return [_copied(one) for one in value]
    return _whole_seconds(value) if field in _TIMES else value


def _amount(value: Any) -> Any:
    try:
        return canonical_quantity(value)
    except QuantityError:
        return value


def _whole_seconds(time: str) -> str:
    """Cut a time in UTC to seconds; one with another offset stays as it is, and the API reads it all the same."""
    rest = time[_TO_SECONDS:]
    return f"{time[:_TO_SECONDS]}Z" if rest.endswith(("Z", "+00:00")) else time


def _lean(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: kept for name, one in value.items() if (kept := _lean(one)) not in (None, "", {}, [])}
    if isinstance(value, list):
        return [_lean(one) for one in value]
    return value
