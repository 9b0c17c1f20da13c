"""The text of `dra_health_state`: the health of devices that claims have, in the kubelet's form (healthinfo.go), for the next process.

It has no checksum. What cannot be read says nothing, and drivers say it again.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from proto.dra.device_health import DEFAULT_TIMEOUT, HEALTHY, UNHEALTHY, UNKNOWN, DeviceHealth, DeviceKey
from proto.kubernetes.api_time import read_api_time
from workflows.decide.claims.health import DriverHealth, Told

STATE_FILE: Final = "dra_health_state"
"""Its name below --root-dir."""
_NANOSECONDS: Final = 1_000_000_000
_LONGEST: Final = 2**63 - 1


def written_health(drivers: Mapping[str, DriverHealth], now: datetime, clock: float) -> str:
    """Write the file; `clock` is the monotonic clock's time at `now`."""
    content = {
        driver: {
            "Devices": {
                f"{pool}/{device}": {
                    "PoolName": pool,
                    "DeviceName": device,
                    "Health": told.said.health,
                    "LastUpdated": (now - timedelta(seconds=clock - told.at)).isoformat(),
                    "HealthCheckTimeout": min(told.said.timeout * _NANOSECONDS, _LONGEST),
                    "Message": told.said.message,
                }
                for (pool, device), told in sorted(devices.items())
            }
        }
        for driver, devices in sorted(drivers.items())
    }
    return json.dumps(content, separators=(",", ":"))


def read_health(text: str, now: datetime, clock: float) -> dict[str, DriverHealth]:
    """Read the file, without what counts no more; raises ValueError if it cannot be used."""
    try:
        content = json.loads(text)
        return {str(driver): dict(_devices(state, now, clock)) for driver, state in content.items()}
    except (ValueError, TypeError, AttributeError, KeyError, OverflowError, RecursionError) as error:
        raise ValueError(f"{STATE_FILE} cannot be read: {error}") from error


def _devices(state: Mapping[str, Any], now: datetime, clock: float) -> Iterator[tuple[DeviceKey, Told]]:
    for one in (state.get("Devices") or {}).values():
        at = read_api_time(one["LastUpdated"])
        if at is None:
            continue
        health = str(one.get("Health"))
        timeout = int(one.get("HealthCheckTimeout") or 0) // _NANOSECONDS or DEFAULT_TIMEOUT
        said = DeviceHealth(
            health if health in {HEALTHY, UNHEALTHY} else UNKNOWN, str(one.get("Message") or ""), timeout
        )
        age = max(0.0, (now - at.astimezone(UTC)).total_seconds())
        told = Told(said, clock - age)
        if told.until >= clock:
            yield (str(one["PoolName"]), str(one["DeviceName"])), told
