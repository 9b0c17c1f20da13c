"""The text of `memory_manager_state`, version 1, as the kubelet writes and reads it.

The rules are pkg/kubelet/cm/memorymanager/state. The checksum is FNV-1a over a dump of the Go struct with its type names.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from proto.json_object import WRONG_FIELD, NoJsonObject, read_object
from proto.kubernetes.container_hash import fnv32a
from proto.kubernetes.go_quote import go_quoted
from workflows.decide.memory_nodes.amounts import Assignments, Block, Blocks, Node, Table
from workflows.decide.memory_nodes.static_policy import StateError

STATE_FILE: Final = "memory_manager_state"
"""In the node's folder."""
_TYPES: Final = ("MemoryManagerCheckpoint", "MemoryManagerCheckpointV1")
"""The name that the kubelet writes, for older ones; and the other that it accepts."""


def written_state(policy: str, known: Assignments) -> str:
    """Write the file."""
    content: dict[str, Any] = {
        "policyName": policy,
        "machineState": {str(number): _node(node) for number, node in sorted(known.machine.items(), key=_as_text)},
    }
    if known.containers:
        content["entries"] = {
            uid: {name: [_block(one) for one in blocks] for name, blocks in sorted(containers.items())}
            for uid, containers in sorted(known.containers.items())
        }
    content["checksum"] = _checksum(_TYPES[0], policy, known)
    return json.dumps(content, separators=(",", ":"))


def read_state(policy: str, text: str) -> Assignments:
    """Read the file; raises StateError for another policy, a wrong checksum, or a content that is none."""
    try:
        content = read_object(text)
        found, checksum = str(content.get("policyName", "")), int(content.get("checksum", 0))
        known = Assignments(
            {int(number): _read_node(node) for number, node in (content.get("machineState") or {}).items()},
            {
                uid: {name: tuple(map(_read_block, blocks or ())) for name, blocks in containers.items()}
                for uid, containers in (content.get("entries") or {}).items()
            },
        )
    except NoJsonObject as error:
        raise StateError(f"no content of a memory_manager_state: {error}") from error
    except (ValueError, TypeError, AttributeError, KeyError, OverflowError) as error:
        raise StateError(f"no content of a memory_manager_state: {WRONG_FIELD}") from error
    if checksum and checksum not in {_checksum(name, found, known) for name in _TYPES}:
        raise StateError("checkpoint is corrupted")
    if found != policy:
        raise StateError(
            f"[memorymanager] configured policy {go_quoted(policy)} differs from state checkpoint policy "
            f"{go_quoted(found)}"
        )
    return known


def _as_text(numbered: tuple[int, Node]) -> str:
    return str(numbered[0])


def _node(node: Node) -> Mapping[str, Any]:
    return {
        "numberOfAssignments": node.assignments,
        "memoryMap": {
            resource: {
                "total": table.total,
                "systemReserved": table.system_reserved,
                "allocatable": table.allocatable,
                "reserved": table.reserved,
                "free": table.free,
            }
            for resource, table in sorted(node.memory.items())
        },
        "cells": list(node.group),
    }


def _block(block: Block) -> Mapping[str, Any]:
    return {"numaAffinity": list(block.nodes), "type": block.resource, "size": block.size}


def _read_node(content: Mapping[str, Any]) -> Node:
    tables = {
        str(resource): Table(
            int(table["total"]),
            int(table["systemReserved"]),
            int(table["allocatable"]),
            int(table["reserved"]),
            int(table["free"]),
        )
        for resource, table in content["memoryMap"].items()
    }
    return Node(_numbers(content["cells"]), tables, int(content["numberOfAssignments"]))


def _read_block(content: Mapping[str, Any]) -> Block:
    return Block(_numbers(content["numaAffinity"]), str(content["type"]), int(content["size"]))


def _numbers(content: Iterable[Any]) -> tuple[int, ...]:
    return tuple(sorted(map(int, content)))


def _checksum(type_name: str, policy: str, known: Assignments) -> int:
    machine = _map({str(number): _dumped_node(node) for number, node in sorted(known.machine.items())})
    entries = _map(
        {
            uid: _map({name: _dumped_blocks(blocks) for name, blocks in sorted(containers.items())})
            for uid, containers in sorted(known.containers.items())
        }
    )
    return fnv32a(
        f"(*state.{type_name}){{PolicyName:(string){policy} MachineState:(state.NUMANodeMap){machine} "
        f"Entries:(state.ContainerMemoryAssignments){entries} Checksum:(checksum.Checksum)0}}"
    )


def _dumped_node(node: Node) -> str:
    tables = _map(
        {
            resource: f"<*>{{TotalMemSize:(uint64){table.total} SystemReserved:(uint64){table.system_reserved} "
            f"Allocatable:(uint64){table.allocatable} Reserved:(uint64){table.reserved} Free:(uint64){table.free}}}"
            for resource, table in sorted(node.memory.items())
        }
    )
    return (
        f"<*>{{NumberOfAssignments:(int){node.assignments} "
        f"MemoryMap:(map[v1.ResourceName]*state.MemoryTable){tables} Cells:([]int){_list(node.group)}}}"
    )


def _dumped_blocks(blocks: Blocks) -> str:
    return _list(
        f"{{NUMAAffinity:([]int){_list(block.nodes)} Type:(v1.ResourceName){block.resource} Size:(uint64){block.size}}}"
        for block in blocks
    )


def _list(items: Iterable[object]) -> str:
    return f"[{' '.join(map(str, items))}]"


def _map(entries: Mapping[str, str]) -> str:
    return f"map[{' '.join(f'{key}:{value}' for key, value in entries.items())}]"
