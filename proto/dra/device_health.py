"""What DRA drivers say of their devices' health. Shared by the client of drivers and what keeps account of it."""

from dataclasses import dataclass
from typing import Final

HEALTHY: Final = "Healthy"
UNHEALTHY: Final = "Unhealthy"
UNKNOWN: Final = "Unknown"
"""As the status of a pod has them."""
DEFAULT_TIMEOUT: Final = 30
"""Seconds (DefaultHealthTimeout)."""


@dataclass(frozen=True, slots=True)
class DeviceHealth:
    """What a driver says of one device."""

    health: str = UNKNOWN
    message: str = ""
    timeout: int = DEFAULT_TIMEOUT
    """Seconds for which it counts."""


DeviceKey = tuple[str, str]
"""Pool and device."""
