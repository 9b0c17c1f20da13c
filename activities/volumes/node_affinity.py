"""Whether a PersistentVolume can be reached from this node: its nodeAffinity against the node's labels.

Pure. Terms are alternatives, what a term asks must all hold (component-helpers corev1 nodeaffinity; a term that asks nothing
matches no node).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

NO_MATCH: Final = "no matching NodeSelectorTerms"


def reachable(volume_spec: Mapping[str, Any], labels: Mapping[str, str], node: str) -> bool:
    """Say whether the node may use the volume; one that asks for nothing may be used from anywhere."""
    required = (volume_spec.get("nodeAffinity") or {}).get("required")
    if not required:
        return True
    return any(_term(one, labels, node) for one in required.get("nodeSelectorTerms") or ())


def _term(term: Mapping[str, Any], labels: Mapping[str, str], node: str) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    return all(_holds(one, labels) for one in expressions) and all(
        _holds(one, {"metadata.name": node}) for one in fields
    )


def _holds(asked: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value = labels.get(str(asked.get("key")))
    values: Sequence[str] = asked.get("values") or ()
    match asked.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return _number(value) > _number(values[0]) if value is not None and values else False
        case "Lt":
            return _number(value) < _number(values[0]) if value is not None and values else False
        case _:
            return False


def _number(text: str | None) -> float:
    """Read a label as the whole number that Gt and Lt compare; what is none compares as neither."""
    return int(text) if text and text.lstrip("-").isdigit() else float("nan")
