"""Which devices of a resource a container gets: those it has, then those its init containers leave, then aligned ones.

The rules and messages are devicesToAllocate in pkg/kubelet/cm/devicemanager/manager.go. Within a set the kubelet takes any; here the
lowest names come first, so that the same question has the same answer. A plugin may be asked in between which ones it prefers:
then `choose` returns `Preference`, and its `answered` goes on.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from proto.kubernetes.go_quote import go_quoted
from workflows.decide.devices.affinity import by_affinity
from workflows.decide.devices.inventory import Inventory, Listed

Given = frozenset[str]
_DIGITS: Final = re.compile(r"([0-9]{1,18})")


class DevicesUnavailable(Exception):
    """A container cannot get its devices; the message is the kubelet's."""


class NotYetRegistered(DevicesUnavailable):
    """The plugin has not registered since the node's start: it may still come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A container that wants devices of a resource, and what is taken."""

    uid: str
    container: str
    resource: str
    wanted: int
    has: frozenset[str] | None = None
    """What it has already; None: nothing was assigned."""
    reusable: frozenset[str] = frozenset()
    """What init containers of its pod leave to it."""
    in_use: frozenset[str] = frozenset()
    """What all containers have, also those of its pod."""
    nodes: tuple[int, ...] | None = None
    """The NUMA nodes of the merged hint; None: any."""
    runs: bool = False
    """The container runs, and the node has just started: so it has its devices."""


@dataclass(frozen=True, slots=True)
class Preference:
    """The plugin may say which of the available devices it prefers."""

    request: Request
    available: frozenset[str]
    """What it is told; with those that it must include."""
    must_include: frozenset[str]
    candidates: frozenset[str]
    """What may be taken of its answer."""
    otherwise: Sequence[frozenset[str]]
    """What is taken after that, set by set."""

    def answered(self, preferred: Iterable[str] = ()) -> Given:
        """Return what is given; raises DevicesUnavailable."""
        taken = _take(self.must_include, frozenset(preferred) & self.candidates, self.request.wanted)
        for one in self.otherwise:
            taken = _take(taken, one, self.request.wanted)
        if len(taken) < self.request.wanted:
            raise DevicesUnavailable(
                "unexpectedly allocated less resources than required. "
                f"Requested: {self.request.wanted}, Got: {len(taken)}"
            )
        return taken


def choose(request: Request, inventory: Inventory) -> Given | Preference:
    """Return the devices to ask the plugin for, none if the container has what it needs; raises DevicesUnavailable."""
    _refuse_change(request)
    if request.runs:
        return frozenset()
    listed = usable(request.resource, inventory.get(request.resource), request.has or ())
    if request.has is not None or not request.wanted:
        return frozenset()
    taken = _take(frozenset(), request.reusable, request.wanted)
    if (needed := request.wanted - len(taken)) == 0:
        return taken
    available = listed.healthy - request.in_use
    if len(available) < needed:
        raise DevicesUnavailable(
            f"requested number of devices unavailable for {request.resource}. Requested: {needed}, Available: {len(available)}"
        )
    found = by_affinity(listed, available, request.nodes)
    if needed < len(found.aligned):
        return Preference(request, found.aligned | taken, taken, found.aligned, (found.aligned,))
    taken = _take(taken, found.aligned, request.wanted)
    if len(taken) == request.wanted:
        return taken
    return Preference(request, available | taken, taken, available, (found.unaligned, found.without))


def _refuse_change(request: Request) -> None:
    """Raise DevicesUnavailable if it has another number of devices than it wants."""
    if request.has is not None and len(request.has) != request.wanted:
        raise DevicesUnavailable(
            f"pod {go_quoted(request.uid)} container {go_quoted(request.container)} changed request for resource "
            f"{go_quoted(request.resource)} from {len(request.has)} to {request.wanted}"
        )


def usable(name: str, listed: Listed | None, has: Collection[str]) -> Listed:
    """Return a resource's devices if there are healthy ones, and all that a container has are; raises DevicesUnavailable."""
    if listed is None:
        raise NotYetRegistered(f"cannot allocate unregistered device {name}")
    if not listed.healthy:
        kind = DevicesUnavailable if listed.registered else NotYetRegistered
        raise kind(f"no healthy devices present; cannot allocate unhealthy devices {name}")
    if not listed.healthy.issuperset(has):
        raise DevicesUnavailable(
            f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {name}"
        )
    return listed


def ordered(devices: Iterable[str]) -> list[str]:
    """Sort devices by name, with numbers by their value."""
    return sorted(devices, key=_with_numbers)


def _with_numbers(name: str) -> tuple[list[tuple[int, str]], str]:
    parts = _DIGITS.split(name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts], name


def _take(taken: frozenset[str], more: frozenset[str], wanted: int) -> frozenset[str]:
    return taken | frozenset(ordered(more - taken)[: max(0, wanted - len(taken))])
