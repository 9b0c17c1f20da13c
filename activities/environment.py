"""A container's environment, command and arguments with their `$(NAME)` references resolved.

Pure; asked by container_config. The rules are the kubelet's: a reference sees what is declared above it, an unknown one
stays as it is written, `$$` is a dollar sign (third_party/forked/golang/expansion). Services add variables only where
there is an API server to list them from (kubelet_pods.go getServiceEnvVarMap), so a standalone node adds none.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_REFERENCE: Final = re.compile(r"\$(?:\$|\(([^)]*)\))")
_MAP_KEY: Final = re.compile(r"metadata\.(labels|annotations)\['([^']*)'\]")


class UnresolvedVariable(Exception):
    """A variable's source cannot be read; its message names the variable, never a value."""


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What `fieldRef` may ask for beside the pod's own JSON."""

    pod: Mapping[str, Any]
    node: str
    pod_ips: tuple[str, ...] = ()
    host_ips: tuple[str, ...] = ()


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace each `$(NAME)` that is known, and `$$` by `$`; everything else stays."""

    def replacement(match: re.Match[str]) -> str:
        name = match[1]
        return "$" if name is None else variables.get(name, match[0])

    return _REFERENCE.sub(replacement, text)


def resolve_environment(entries: Sequence[Mapping[str, Any]], facts: PodFacts) -> dict[str, str]:
    """Give each variable its value, in the order of declaration; of a name declared twice the last one counts."""
    resolved: dict[str, str] = {}
    for entry in entries:
        name = entry["name"]
        value = entry.get("value") or ""
        source = entry.get("valueFrom") or {}
        if value:
            resolved[name] = expand(value, resolved)
        elif source:
            resolved[name] = _from_source(name, source, facts)
        else:
            resolved[name] = ""
    return resolved


def _from_source(name: str, source: Mapping[str, Any], facts: PodFacts) -> str:
    match source:
        case {"fieldRef": {"fieldPath": str(path)}}:
            return _field(name, path, facts)
        case _:
            kinds = ", ".join(sorted(source))
            raise UnresolvedVariable(
                f"env {name}: a value from {kinds} is not supported yet; set a value or a fieldRef"
            )


def _field(name: str, path: str, facts: PodFacts) -> str:
    metadata, spec = facts.pod.get("metadata") or {}, facts.pod.get("spec") or {}
    if match := _MAP_KEY.fullmatch(path):
        return str((metadata.get(match[1]) or {}).get(match[2], ""))
    match path:
        case "metadata.name" | "metadata.namespace" | "metadata.uid":
            return str(metadata.get(path.removeprefix("metadata."), ""))
        case "spec.nodeName":
            return facts.node
        case "spec.serviceAccountName":
            return str(spec.get("serviceAccountName", ""))
        case "status.podIP" | "status.hostIP":
            addresses = facts.pod_ips if path == "status.podIP" else facts.host_ips
            return addresses[0] if addresses else ""
        case "status.podIPs" | "status.hostIPs":
            return ",".join(facts.pod_ips if path == "status.podIPs" else facts.host_ips)
        case _:
            raise UnresolvedVariable(f"env {name}: fieldRef {path!r} is no field that a container may read")
