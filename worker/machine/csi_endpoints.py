"""Where the node's CSI drivers listen, recorded by its worker for the node process.

Drivers register with the worker, which mounts. The node process calls them too, for statistics of volumes, and reads the file
each time it does. The file is kept when the worker stops: a driver that has gone meanwhile does not answer.
"""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from activities.clients.csi_drivers import CsiDrivers, Driver
from activities.files.atomic_files import write_atomically

FILE: Final = "csi-drivers.json"
_LARGEST: Final = 1 << 20


class EndpointRecord:
    """The loop that records the registered drivers; failed writes are for the caller to retry."""

    def __init__(self, state_dir: Path, drivers: CsiDrivers) -> None:
        self._state_dir = state_dir
        self._endpoints = recorded_endpoints(state_dir)
        self._changed = asyncio.Event()
        drivers.on_change(self._note)

    async def run(self) -> None:
        """Record each change until cancelled; raises OSError."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await asyncio.to_thread(record_endpoints, self._state_dir, dict(self._endpoints))
            except OSError:
                self._changed.set()
                raise

    def _note(self, name: str, driver: Driver | None) -> None:
        if driver is None:
            self._endpoints.pop(name, None)
        else:
            self._endpoints[name] = driver.endpoint
        self._changed.set()


def record_endpoints(state_dir: Path, endpoints: Mapping[str, str]) -> None:
    """Record the drivers' sockets by name; raises OSError."""
    write_atomically(state_dir / FILE, json.dumps(endpoints).encode())


def recorded_endpoints(state_dir: Path) -> dict[str, str]:
    """Return what the worker recorded last; before its first driver nothing. Blocks on a file."""
    try:
        with (state_dir / FILE).open("rb") as file:
            found = json.loads(file.read(_LARGEST))
        return {name: endpoint for name, endpoint in found.items() if isinstance(endpoint, str)}
    except (OSError, ValueError, AttributeError):
        return {}
