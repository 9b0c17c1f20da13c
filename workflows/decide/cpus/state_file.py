"""The text of `cpu_manager_state`, version 2, as the kubelet writes and reads it; version 1 is read, too.

The rules are pkg/kubelet/cm/cpumanager/state. The checksum is FNV-1a over a dump of the Go struct with its type names.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from proto.json_object import WRONG_FIELD, NoJsonObject, read_object
from proto.kubernetes.container_hash import fnv32a
from proto.kubernetes.go_quote import go_quoted
from workflows.decide.cpus.cpu_sets import CpuListError, Cpus, parse_cpus, written_cpus
from workflows.decide.cpus.static_policy import Assignments, StateError

STATE_FILE: Final = "cpu_manager_state"
"""In the kubelet's root directory."""
STATIC: Final = "static"
_TYPES: Final = ("CPUManagerCheckpoint", "CPUManagerCheckpointV2")
"""The name that the kubelet writes, for older ones; and the other that it accepts."""
Containers = Callable[[], Mapping[str, tuple[str, str]]]
"""Returns the uid of the pod and the name of each container that the runtime has, by its id."""


def none_known() -> Mapping[str, tuple[str, str]]:
    """Return no containers."""
    return {}


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


def read_state(policy: str, text: str, known: Containers = none_known) -> Assignments:
    """Read the file; raises StateError for another policy, a wrong checksum, or a content that is none.

    Version 1 has containers by id: `known` is asked for them.
    """
    try:
        content = read_object(text)
        found, shared = str(content.get("policyName", "")), str(content.get("defaultCpuSet", ""))
        given, checksum = content.get("entries") or {}, int(content.get("checksum", 0))
        is_old = bool(given) and all(isinstance(one, str) for one in given.values())
        entries = {} if is_old else {uid: _texts(containers) for uid, containers in given.items()}
    except NoJsonObject as error:
        raise StateError(f"no content of a cpu_manager_state: {error}") from error
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise StateError(f"no content of a cpu_manager_state: {WRONG_FIELD}") from error
    right = {_checksum(name, found, shared, entries) for name in _TYPES} if not is_old else set()
    if is_old or not given:
        right.add(_old_checksum(found, shared, given))
    if checksum and checksum not in right:
        raise StateError("checkpoint is corrupted")
    if is_old:
        entries = _migrated(given, known())
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


def _texts(cpus: Mapping[str, Any]) -> dict[str, str]:
    """Return the CPUs of containers; raises TypeError for what is no text."""
    if not all(isinstance(one, str) for one in cpus.values()):
        raise TypeError
    return dict(cpus)


def _migrated(given: Mapping[str, str], known: Mapping[str, tuple[str, str]]) -> dict[str, dict[str, str]]:
    """Return what containers have by pod and name; raises StateError for one that the runtime does not have."""
    entries: dict[str, dict[str, str]] = {}
    for container_id, cpus in given.items():
        if container_id not in known:
            raise StateError(
                f"failed to migrate checkpoint from v1 to v2: containerID '{container_id}' not found in initial containers list"
            )
        uid, name = known[container_id]
        entries.setdefault(uid, {})[name] = cpus
    return entries


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


def _old_checksum(policy: str, shared: str, entries: Mapping[str, str]) -> int:
    return fnv32a(
        f"(*state.{_TYPES[0]}){{PolicyName:(string){policy} DefaultCPUSet:(string){shared} "
        f"Entries:(map[string]string){_map(entries)} Checksum:(checksum.Checksum)0}}"
    )


def _map(entries: Mapping[str, str]) -> str:
    return f"map[{' '.join(f'{key}:{value}' for key, value in sorted(entries.items()))}]"
