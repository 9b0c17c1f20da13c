"""The slices of the pods' cgroups: made, limited and stopped by systemd, over D-Bus.

Called by `cgroups` and `memory_protection` with the systemd driver. Each call may run twice, late or after a half done
one: an existing slice stays, a missing one is stopped already. Blocks until systemd has done it, at most
`systemd.SECONDS`; raises OSError with systemd's words.
"""

from collections.abc import Mapping
from typing import Protocol

from activities.clients.systemd.units import SystemdUnits
from activities.machine.cgroup_files import Files
from activities.machine.cgroup_names import parent_unit, unit
from activities.machine.slice_properties import Property, new_slice, properties_of


class Units(Protocol):
    """The part of systemd that slices need."""

    def version(self) -> int:
        """Return systemd's version."""

    def start(self, name: str, properties: list[Property]) -> None:
        """Make a transient unit and start it; start one that exists already."""

    def limit(self, name: str, properties: list[Property]) -> None:
        """Set properties of a unit until the next boot."""

    def stop(self, name: str) -> None:
        """Stop a unit; a missing one is fine."""


class Slices:
    """The slices of one node."""

    def __init__(self, units: Units | None = None, *, v2: bool) -> None:
        """Take the units (None: this machine's), and the version of cgroups."""
        self._units: Units = units or SystemdUnits()
        self._v2 = v2

    def begin(self, cgroup: str) -> None:
        """Make the slice of a cgroup, with those above it; an existing one stays as it is."""
        self._units.start(unit(cgroup), new_slice(unit(cgroup), parent_unit(cgroup), v2=self._v2))

    def limit(self, cgroup: str, files: Files, beside: Mapping[str, str]) -> None:
        """Tell systemd what the files of a cgroup will say; see `properties_of`."""
        if properties := properties_of(files, beside, version=self._units.version()):
            self._units.limit(unit(cgroup), properties)

    def stop(self, cgroup: str) -> None:
        """Stop the slice of a cgroup, with the scopes in it."""
        self._units.stop(unit(cgroup))
