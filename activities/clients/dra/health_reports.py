"""What a plugin reports of its devices' health, within bounds (pkg/kubelet/cm/dra/manager.go buildDeviceHealth).

A report may lie or be broken: it is limited in number, in the lengths of names and messages, and in how long it counts.
"""

from collections.abc import Iterable
from typing import Final

from proto.dra.device_health import DEFAULT_TIMEOUT, HEALTHY, UNHEALTHY, UNKNOWN, DeviceHealth, DeviceKey
from proto.drahealth.v1alpha1 import api_pb2 as api

MOST_DEVICES: Final = 5_000
"""In one report."""
LONGEST_NAME: Final = 512
"""Characters of a pool's or a device's name."""
LONGEST_MESSAGE: Final = 1024
"""Bytes of a message (ResourceHealthMessageMaxLength)."""
LONGEST_TIMEOUT: Final = 10 * 365 * 24 * 3600
"""Seconds; a longer one counts as this, where it overflows in a kubelet."""
_ELLIPSIS: Final = "..."
_HEALTH: Final = {api.HEALTHY: HEALTHY, api.UNHEALTHY: UNHEALTHY}


class ReportRefused(ValueError):
    """A report is beyond the limits."""


def read_report(devices: Iterable[api.DeviceHealth]) -> dict[DeviceKey, DeviceHealth]:
    """Read a report; of two entries of one device the last counts. Raises ReportRefused."""
    found: dict[DeviceKey, DeviceHealth] = {}
    for number, one in enumerate(devices):
        if number == MOST_DEVICES:
            raise ReportRefused(f"it reports the health of more than {MOST_DEVICES} devices")
        key = one.device.pool_name, one.device.device_name
        if max(map(len, key)) > LONGEST_NAME:
            raise ReportRefused(f"it reports the health of a device with a name of more than {LONGEST_NAME} characters")
        seconds = one.health_check_timeout_seconds
        timeout = min(seconds, LONGEST_TIMEOUT) if seconds > 0 else DEFAULT_TIMEOUT
        found[key] = DeviceHealth(_HEALTH.get(one.health, UNKNOWN), _shortened(one.message), timeout)
    return found


def _shortened(message: str) -> str:
    """Cut a message as the kubelet does, but not in the middle of a character."""
    whole = message.encode()
    if len(whole) <= LONGEST_MESSAGE:
        return message
    return whole[: LONGEST_MESSAGE - len(_ELLIPSIS)].decode(errors="ignore") + _ELLIPSIS
