"""A container's environment, command and arguments with their `$(NAME)` references resolved.

Pure; asked by container_config. The rules are the kubelet's: a reference sees what is declared above it, an unknown one
stays as it is written, `$$` is a dollar sign (third_party/forked/golang/expansion). Services add variables only where
there is an API server to list them from (kubelet_pods.go getServiceEnvVarMap), so a standalone node adds none.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

_REFERENCE: Final = re.compile(r"\$(?:\$|\(([^)]*)\))")


class UnresolvedVariable(Exception):
    """A variable's source cannot be read; its message names the variable, never a value."""


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace each `$(NAME)` that is known, and `$$` by `$`; everything else stays."""

    def replacement(match: re.Match[str]) -> str:
        name = match[1]
        return "$" if name is None else variables.get(name, match[0])

    return _REFERENCE.sub(replacement, text)


def names_in(text: str) -> tuple[str, ...]:
    """List the names that a text refers to, in their order."""
    return tuple(match[1] for match in _REFERENCE.finditer(text) if match[1] is not None)


def resolve_environment(entries: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Give each variable its value, in the order of declaration; of a name declared twice the last one counts.

    Raises UnresolvedVariable for a value that comes from elsewhere: such pods are refused before they get here.
    """
    resolved: dict[str, str] = {}
    for entry in entries:
        name, source = entry["name"], entry.get("valueFrom")
        if source:
            raise UnresolvedVariable(f"env {name}: a value from {', '.join(sorted(source))} is not supported yet")
        resolved[name] = expand(entry.get("value") or "", resolved)
    return resolved
