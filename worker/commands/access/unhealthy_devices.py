"""Which devices of a pod are not healthy now, for `explain`: a container keeps them, and may fail for want of them."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from proto.node_devices import read_healthy_devices
from proto.temporal.hardware.ledger import ContainerAssignment

NAMED: Final = 10
"""Devices that are named; the rest is counted."""


def unhealthy_devices(root_dir: Path, containers: Mapping[str, ContainerAssignment]) -> Iterator[str]:
    """Say which devices of device plugins are not healthy, a sentence for each container and resource."""
    healthy = read_healthy_devices(root_dir)
    for name, given in containers.items():
        has: dict[str, list[str]] = {}
        for one in given.devices:
            has.setdefault(one.resource, []).extend(one.ids)
        for resource, ids in sorted(has.items()):
            if ill := sorted(set(ids) - healthy.get(resource, {}).keys()):
                more = f" and {len(ill) - NAMED} more" if len(ill) > NAMED else ""
                named = f"{', '.join(ill[:NAMED])}{more}"
                yield f"container {name}: {resource} {named}: not healthy, or its device plugin is not connected"
