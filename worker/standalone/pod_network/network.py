"""The name and the addresses of an instance's pod network."""

import ipaddress
from dataclasses import dataclass
from typing import Final

BRIDGE_NAME_LIMIT: Final = 15  # IFNAMSIZ


@dataclass(frozen=True, slots=True)
class PodNetwork:
    """The pod network of an instance: one bridge, one subnet, addresses assigned by host-local."""

    bridge: str = "tempolet0"
    subnet: str = "10.213.0.0/22"

    def __post_init__(self) -> None:
        ipaddress.ip_network(self.subnet)
        if len(self.bridge) > BRIDGE_NAME_LIMIT:
            raise ValueError(
                f"bridge name {self.bridge!r} has over {BRIDGE_NAME_LIMIT} characters: choose a shorter one"
            )
