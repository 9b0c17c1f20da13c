"""Whether a node matches the terms of a node selector, as in a pod's affinity and a PersistentVolume's.

One term must match, with all its requirements (k8s.io/component-helpers scheduling/corev1/nodeaffinity).
"""

from collections.abc import Iterable, Mapping
from typing import Any

Labels = Mapping[str, str]


def selects(terms: Iterable[Mapping[str, Any]], labels: Labels, name: str) -> bool:
    """Report whether one of the terms matches a node with these labels and this name."""
    return any(_holds_all(term, labels, name) for term in terms)


def _holds_all(term: Mapping[str, Any], labels: Labels, name: str) -> bool:
    """Report whether all requirements of a term match; an empty term matches no node."""
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    of_fields = {"metadata.name": name}
    return all(_holds(one, labels) for one in expressions) and all(_holds(one, of_fields) for one in fields)


def _holds(expression: Mapping[str, Any], labels: Labels) -> bool:
    value, values = labels.get(str(expression.get("key"))), expression.get("values") or ()
    match expression.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return _compared(value, values) > 0
        case "Lt":
            return _compared(value, values) < 0
        case _:
            return False


def _compared(value: str | None, values: Any) -> int:
    """Compare integers; anything else compares as equal, so that neither operator matches."""
    mine, other = _number(value), _number(values[0]) if len(values) == 1 else None
    return 0 if mine is None or other is None else (mine > other) - (mine < other)


def _number(text: str | None) -> int | None:
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None
