"""Who has which devices, by the annotation on containers: for a node whose checkpoint was lost, or lacks what was lost before.

The node writes the annotation when it makes a container. It has the devices' names only: what the plugin answered may be confidential,
and is asked for again before the container starts anew. A kubelet has no such record, and gives a device that is in use once more.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from proto.cri.runtime_container import RuntimeContainer, as_believed
from workflows.decide.devices.assignments import Assigned, Assignments
from workflows.decide.devices.inventory import WITHOUT_TOPOLOGY

LONGEST: Final = 262_144
"""Characters: what is longer is neither written nor read."""
_LONGEST_NAME: Final = 512
_MOST_NODES: Final = 1024


@dataclass(frozen=True, slots=True)
class Recovered:
    """What was found."""

    assignments: Assignments = field(default_factory=Assignments)
    ignored: tuple[str, ...] = ()
    """What was not taken back, one sentence each."""


def written_devices(found: Mapping[str, Assigned]) -> str:
    """Write a container's devices by resource and NUMA node; empty for none, or for too many."""
    devices = {
        resource: {str(node): list(ids) for node, ids in sorted(assigned.devices.items())}
        for resource, assigned in sorted(found.items())
        if assigned.ids
    }
    text = json.dumps(devices, separators=(",", ":")) if devices else ""
    return text if len(text) <= LONGEST else ""


def recovered(known: Assignments, found: Iterable[RuntimeContainer]) -> Recovered:
    """Add to what is known what containers have beside it: first those that run, then the older ones. No device goes to two pods."""
    ignored: list[str] = []
    for one in as_believed(found):
        if not one.devices:
            continue
        try:
            devices = _read(one.devices)
        except (ValueError, TypeError, AttributeError, RecursionError):
            ignored.append(f"the devices of {one} cannot be read")
            continue
        for resource, assigned in devices.items():
            if known.of(one.uid, one.name, resource) is not None:
                continue
            if assigned.ids & (known.used(resource) - known.of_pod(one.uid, resource)):
                ignored.append(f"{one} has devices of {resource} that another pod has, which keeps them")
            else:
                known = known.with_assigned(one.uid, one.name, resource, assigned)
    return Recovered(known, tuple(ignored))


def _read(text: str) -> dict[str, Assigned]:
    """Read an annotation; raises ValueError and what else a wrong one leads to."""
    if len(text) > LONGEST:
        raise ValueError("too long")
    found = {}
    for resource, nodes in json.loads(text).items():
        devices = {_node(node): tuple(_name(one) for one in ids) for node, ids in nodes.items()}
        assigned = Assigned(devices, None)
        if not assigned.ids:
            raise ValueError("no devices")
        found[_name(resource)] = assigned
    return found


def _node(text: str) -> int:
    node = int(text)
    if not WITHOUT_TOPOLOGY <= node < _MOST_NODES:
        raise ValueError("no node of a machine")
    return node


def _name(text: Any) -> str:
    if not isinstance(text, str) or not 0 < len(text) <= _LONGEST_NAME:
        raise ValueError("no name")
    return text
