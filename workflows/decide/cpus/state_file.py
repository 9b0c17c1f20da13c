"""The text of `cpu_manager_state`, version 2, as the kubelet writes and reads it.

The rules are pkg/kubelet/cm/cpumanager/state. The checksum is FNV-1a over a dump of the Go struct with its type names.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from proto.kubernetes.container_hash import fnv32a
from proto.kubernetes.go_quote import go_quoted
from workflows.decide.cpus.cpu_sets import CpuListError, Cpus, parse_cpus, written_cpus
from workflows.decide.cpus.static_policy import Assignments, StateError

STATE_FILE: Final = "cpu_manager_state"
"""In the kubelet's root directory."""
STATIC: Final = "static"
_TYPES: Final = ("CPUManagerCheckpoint", "CPUManagerCheckpointV2")
"""The name that the kubelet writes, for older ones; and the other that it accepts."""


def written_state(policy: str, assignments: Assignments) -> str:
    """Write the file."""
    entries = {
        uid: {name: written_cpus(cpus) for name, cpus in sorted(containers.items())}
        for uid, containers in sorted(assignments.containers.items())
    }
    shared = written_cpus(assignments.shared)
    content: dict[str, Any] = {"policyName": policy, "defaultCpuSet": shared}
    if entries:
        content["entries"] = entries
    content["checksum"] = _checksum(_TYPES[0], policy, shared, entries)
    return json.dumps(content, separators=(",", ":"))


def read_state(policy: str, text: str) -> Assignments:
    """Read the file; raises StateError for another policy, a wrong checksum, or a content that is none."""
    try:
        content = json.loads(text)
        found, shared = str(content.get("policyName", "")), str(content.get("defaultCpuSet", ""))
        entries = {uid: dict(containers) for uid, containers in (content.get("entries") or {}).items()}
        checksum = int(content.get("checksum", 0))
    except (ValueError, TypeError, AttributeError) as error:
        raise StateError(f"no content of a cpu_manager_state: {error}") from error
    if checksum and checksum not in {_checksum(name, found, shared, entries) for name in _TYPES}:
        raise StateError("checkpoint is corrupted")
    if found != policy:
        raise StateError(
            f"configured policy {go_quoted(policy)} differs from state checkpoint policy {go_quoted(found)}"
        )
    containers = {
        uid: {
            name: _parsed(cpus, f"cpuset {go_quoted(cpus)} for container {go_quoted(name)} in pod {go_quoted(uid)}")
            for name, cpus in given.items()
        }
        for uid, given in entries.items()
    }
    return Assignments(_parsed(shared, f"default cpu set {go_quoted(shared)}"), containers)


def _parsed(text: str, what: str) -> Cpus:
    try:
        return parse_cpus(text)
    except CpuListError as error:
        raise StateError(f"could not parse {what}: {error}") from error


def _checksum(type_name: str, policy: str, shared: str, entries: Mapping[str, Mapping[str, str]]) -> int:
    dumped = _map({uid: _map(containers) for uid, containers in entries.items()})
    return fnv32a(
        f"(*state.{type_name}){{PolicyName:(string){policy} DefaultCPUSet:(string){shared} "
        f"Entries:(map[string]map[string]string){dumped} Checksum:(checksum.Checksum)0}}"
    )


def _map(entries: Mapping[str, str]) -> str:
    return f"map[{' '.join(f'{key}:{value}' for key, value in sorted(entries.items()))}]"
