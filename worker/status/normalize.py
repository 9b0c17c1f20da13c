"""Normalizes a pod's status to the API server's form, so that two of them can be compared.

Used by `merge` and `patch`. The API has whole seconds, canonical quantities and no nulls. The kubelet sorts container statuses
by name, init containers in the order of the spec (pkg/kubelet/status/status_manager.go normalizeStatus). Termination messages
are truncated where the status is computed (workflows/decide/status/messages.py).
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
    """Return a copy in the API's form."""
    copy = _copy(status)
    assert isinstance(copy, dict)
    for field in _SORTED:
        if field in copy:
            copy[field].sort(key=lambda one: one["name"])
    return copy


def same(one: Any, other: Any) -> bool:
    """Report whether two values are equal; empty values count as absent, because the API omits them."""
    return bool(_without_empty({"": one}) == _without_empty({"": other}))


def _copy(value: Any, field: str = "") -> Any:
    if isinstance(value, Mapping):
        if field in _AMOUNTS:
            return {name: _amount(one) for name, one in value.items()}
        return {name: _copy(one, name) for name, one in value.items() if one is not None}
    if isinstance(value, (list, tuple)):
        return [_copy(one) for one in value]
    return _whole_seconds(value) if field in _TIMES else value


def _amount(value: Any) -> Any:
    try:
        return canonical_quantity(value)
    except QuantityError:
        return value


def _whole_seconds(time: str) -> str:
    """Truncate a UTC time to seconds; a time with another offset is left as it is, and the API accepts it."""
    rest = time[_TO_SECONDS:]
    return f"{time[:_TO_SECONDS]}Z" if rest.endswith(("Z", "+00:00")) else time


def _without_empty(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: kept for name, one in value.items() if (kept := _without_empty(one)) not in (None, "", {}, [])}
    if isinstance(value, list):
        return [_without_empty(one) for one in value]
    return value
