"""Machines and assignments in the words of `memory_manager_state`, as the Go program asks and answers."""

from collections.abc import Mapping, Sequence
from typing import Any

from workflows.decide.memory_nodes.amounts import Assignments, Block, Blocks, Machine, Node, Table
from workflows.decide.memory_nodes.static_policy import NodeMemory

Json = Mapping[str, Any]


def machine_of(nodes: Sequence[Json]) -> dict[int, NodeMemory]:
    """Read what a machine has."""
    return {
        one["id"]: NodeMemory(one["memory"], {size * 1024: number for size, number in one["hugePages"]})
        for one in nodes
    }


def assignments_of(entries: Json) -> dict[str, dict[str, Blocks]]:
    """Read the blocks of containers."""
    return {
        uid: {
            name: tuple(Block(tuple(one["numaAffinity"]), one["type"], one["size"]) for one in blocks)
            for name, blocks in containers.items()
        }
        for uid, containers in entries.items()
    }


def state_of(content: Json) -> Assignments:
    """Read a whole state."""
    machine = {
        int(number): Node(
            tuple(node["cells"]),
            {
                resource: Table(one["total"], one["systemReserved"], one["allocatable"], one["reserved"], one["free"])
                for resource, one in node["memoryMap"].items()
            },
            node["numberOfAssignments"],
        )
        for number, node in content["machineState"].items()
    }
    return Assignments(machine, assignments_of(content["entries"]))


def content_of(machine: Machine, entries: Json) -> dict[str, Any]:
    """Write a state; `entries` are in its words."""
    return {
        "machineState": {
            str(number): {
                "numberOfAssignments": node.assignments,
                "memoryMap": {
                    resource: {
                        "total": one.total,
                        "systemReserved": one.system_reserved,
                        "allocatable": one.allocatable,
                        "reserved": one.reserved,
                        "free": one.free,
                    }
                    for resource, one in node.memory.items()
                },
                "cells": list(node.group),
            }
            for number, node in machine.items()
        },
        "entries": entries,
    }


def content_of_state(known: Assignments) -> dict[str, Any]:
    """Write a whole state, the blocks of a container sorted by resource."""
    entries = {
        uid: {
            name: [
                {"numaAffinity": list(one.nodes), "type": one.resource, "size": one.size}
                for one in sorted(blocks, key=lambda one: one.resource)
            ]
            for name, blocks in containers.items()
        }
        for uid, containers in known.containers.items()
    }
    return content_of(known.machine, entries)
