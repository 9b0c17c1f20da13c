"""Whether a pod tolerates a taint of its node (k8s.io/component-helpers scheduling/corev1, core/v1 ToleratesTaint)."""

from collections.abc import Iterable, Mapping
from typing import Any


def tolerates(tolerations: Iterable[Mapping[str, Any]], taint: Mapping[str, Any]) -> bool:
    """Report whether one of the tolerations tolerates the taint."""
    return any(_stands_against(one, taint) for one in tolerations)


def _stands_against(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    effect, key = toleration.get("effect") or "", toleration.get("key") or ""
    if effect and effect != taint.get("effect"):
        return False
    if key and key != taint.get("key"):
        return False
    value, wanted = toleration.get("value") or "", taint.get("value") or ""
    match toleration.get("operator") or "Equal":
        case "Exists":
            return True
        case "Equal":
            return bool(value == wanted)
        case _:
            return False  # Lt and Gt are behind a feature gate that is off
