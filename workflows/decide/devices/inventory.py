"""The devices that plugins list, by resource, and how many of them a node has.

The rules are genericDeviceUpdateCallback, markResourceUnhealthy, isDevicePluginResource and GetCapacity in
pkg/kubelet/cm/devicemanager/manager.go.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

HEALTHY: Final = "Healthy"
WITHOUT_TOPOLOGY: Final = -1
"""The node of a device that is near to none (nodeWithoutTopology)."""


@dataclass(frozen=True, slots=True)
class Listed:
    """The devices of one resource, as its plugin listed them last."""

    nodes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """By device: the NUMA nodes near it; empty: it is near to none."""
    healthy: frozenset[str] = frozenset()
    ill: frozenset[str] = frozenset()
    """Devices that the plugin itself called unhealthy."""
    registered: bool = True
    """False after a start, until the plugin has registered again."""

    @property
    def is_aligned(self) -> bool:
        """Say whether any device tells its NUMA nodes: then all care for alignment (deviceHasTopologyAlignment)."""
        return any(self.nodes.values())

    @property
    def allocatable(self) -> int:
        """Count the devices that a container may get."""
        return len(self.healthy)

    @property
    def capacity(self) -> int:
        """Count all devices."""
        return len(self.nodes)

    def near(self, device: str) -> tuple[int, ...]:
        """Return the NUMA nodes near a device; none if it is not listed."""
        return self.nodes.get(device, ())

    def disconnected(self) -> "Listed":
        """Return the same devices, none of which can be given: their plugin is gone."""
        return replace(self, healthy=frozenset())


UNREGISTERED: Final = Listed(registered=False)

Inventory = Mapping[str, Listed]
"""By resource: those that plugins have registered and that are not removed. After a start the known ones are UNREGISTERED."""


def is_of_plugins(resource: str, inventory: Inventory, allocated: Collection[str]) -> bool:
    """Report whether a resource is a plugin's; `allocated` names those of which somebody has devices."""
    return resource in inventory or resource in allocated
