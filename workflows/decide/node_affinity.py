"""Whether a node is one of those that a pod wants: nodeSelector and what its node affinity requires.

Asked by `node_admission` (k8s.io/component-helpers scheduling/corev1/nodeaffinity). What an affinity merely prefers is the scheduler's.
"""

from collections.abc import Mapping
from typing import Any

Labels = Mapping[str, str]


def matches_node(spec: Mapping[str, Any], labels: Labels, name: str) -> bool:
    """Say whether a node with these labels and this name may run a pod of this spec."""
    selector: Mapping[str, str] = spec.get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in selector.items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    return any(_matches_term(term, labels, name) for term in required.get("nodeSelectorTerms") or ())


def _matches_term(term: Mapping[str, Any], labels: Labels, name: str) -> bool:
    """Say whether everything in a term holds; one that asks for nothing holds for no node."""
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    of_fields = {"metadata.name": name}
    return all(_holds(one, labels) for one in expressions) and all(_holds(one, of_fields) for one in fields)


def _holds(expression: Mapping[str, Any], labels: Labels) -> bool:
    value, values = labels.get(expression["key"]), expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return _number(value) is not None and _compared(value, values) > 0
        case "Lt":
            return _number(value) is not None and _compared(value, values) < 0
        case _:
            return False


def _number(text: str | None) -> int | None:
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None


def _compared(value: str | None, values: Any) -> int:
    """Compare whole numbers; what is none compares as equal, so that neither operator holds."""
    mine, other = _number(value), _number(values[0]) if len(values) == 1 else None
    return 0 if mine is None or other is None else (mine > other) - (mine < other)
