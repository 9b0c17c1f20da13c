"""The health of a container's devices, for `allocatedResourcesStatus` in its status.

The rules are UpdateAllocatedResourcesStatus in pkg/kubelet/cm/devicemanager/manager.go: what the plugin said last counts, also when it is
gone, and a device that it lists no more is healthy. The kubelet lists resources and devices in any order, here by name, so that a status does not change by itself.
"""

from collections.abc import Mapping
from typing import Any, Final

from workflows.decide.devices.allocation import ordered
from workflows.decide.devices.assignments import Assignments
from workflows.decide.devices.inventory import UNREGISTERED, Inventory

HEALTHY: Final = "Healthy"
UNHEALTHY: Final = "Unhealthy"


def resources_status(assignments: Assignments, uid: str, container: str, inventory: Inventory) -> list[dict[str, Any]]:
    """Return the entries of one container; none if it has no devices."""
    found = assignments.pods.get(uid, {}).get(container, {})
    return [
        {"name": name, "resources": _health(found[name].ids, inventory, name)}
        for name in sorted(found)
        if found[name].devices
    ]


def _health(devices: frozenset[str], inventory: Inventory, resource: str) -> list[Mapping[str, str]]:
    ill = inventory.get(resource, UNREGISTERED).ill
    return [{"resourceID": one, "health": UNHEALTHY if one in ill else HEALTHY} for one in ordered(devices)]
