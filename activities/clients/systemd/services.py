"""Services that have unit files: started, stopped, enabled, and asked for their main process.

Used by `tempolet up` and `down` for the units that they write (`worker/standalone/machine/units.py`). Every operation may run
twice. Raises SystemdUnavailable, SystemdRefused: OSErrors.
"""

import contextlib
from typing import Any, Final

from jeepney import DBusAddress

from activities.clients.systemd.bus import MANAGER_ADDRESS, SYSTEMD, SystemdRefused
from activities.clients.systemd.units import REPLACE, SystemdUnits, stop_unit

_ALONE: Final = "ignore-dependencies"
_SERVICE: Final = f"{SYSTEMD}.Service"
_UNIT: Final = f"{SYSTEMD}.Unit"


class SystemdServices:
    """The services of this machine."""

    def __init__(self, units: SystemdUnits | None = None) -> None:
        """Take the way to systemd, and with it the time of one operation."""
        self._units = units or SystemdUnits()

    def main_pid(self, name: str) -> int:
        """Return the main process of a service; 0 if it has none."""
        return int(self._property(name, _SERVICE, "MainPID") or 0)

    def state(self, name: str) -> str:
        """Return a unit's ActiveState; "inactive" also for a unit that is missing."""
        return str(self._property(name, _UNIT, "ActiveState") or "inactive")

    def substate(self, name: str) -> str:
        """Return a unit's SubState, such as "auto-restart" for a service that waits to be started again."""
        return str(self._property(name, _UNIT, "SubState") or "dead")

    def result(self, name: str) -> str:
        """Return how a service has ended: "success", "timeout" if it had to be killed, and others."""
        return str(self._property(name, _SERVICE, "Result") or "")

    def invocation(self, name: str) -> str:
        """Return the id of the last start of a unit, as the journal has it; empty if it was never started."""
        return bytes(self._property(name, _UNIT, "InvocationID") or b"").hex()

    def start(self, name: str, *, alone: bool = False) -> None:
        """Queue the start of a unit, and do not wait for it; `alone`: without what it wants."""
        mode = _ALONE if alone else REPLACE
        self._units.operation(lambda bus: bus.call(MANAGER_ADDRESS, "StartUnit", "ss", (name, mode)))

    def stop(self, name: str) -> None:
        """Stop a unit, and wait until it has ended; a missing one is fine."""
        self._units.operation(lambda bus: stop_unit(bus, name))

    def forget(self, name: str) -> None:
        """Let systemd drop the state of a unit that has ended."""
        with contextlib.suppress(SystemdRefused):
            self._units.operation(lambda bus: bus.call(MANAGER_ADDRESS, "ResetFailedUnit", "s", (name,)))

    def reload(self) -> None:
        """Let systemd read all unit files again."""
        self._units.operation(lambda bus: bus.call(MANAGER_ADDRESS, "Reload"))

    def enable(self, name: str) -> None:
        """Start a unit at each boot, as its [Install] section says."""
        body = ([name], False, True)
        self._units.operation(lambda bus: bus.call(MANAGER_ADDRESS, "EnableUnitFiles", "asbb", body))

    def disable(self, name: str) -> None:
        """Start a unit at no boot."""
        self._units.operation(lambda bus: bus.call(MANAGER_ADDRESS, "DisableUnitFiles", "asb", ([name], False)))

    def _property(self, name: str, interface: str, member: str) -> Any:
        address = DBusAddress(object_path(name), SYSTEMD, "org.freedesktop.DBus.Properties")
        body: Any = self._units.operation(lambda bus: bus.call(address, "Get", "ss", (interface, member)).body())
        return body[0][1] if body else None


def object_path(unit: str) -> str:
    """Return the D-Bus object of a unit, loaded or not (sd_bus_path_encode(3))."""
    label = "".join(
        one if one.isascii() and (one.isalpha() or (one.isdigit() and at)) else f"_{ord(one):02x}"
        for at, one in enumerate(unit)
    )
    return f"/org/freedesktop/systemd1/unit/{label}"
