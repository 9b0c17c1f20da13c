"""How much room the devices of all containers may take in the ledger and in the checkpoint; a kubelet has no such limits.

A plugin may list other names, and answer other things, each time. So what all containers have counts, not what is listed now.
"""

from collections.abc import Iterable
from typing import Final

from workflows.decide.devices.allocation import DevicesUnavailable, Request
from workflows.decide.devices.assignments import Assigned, Assignments, PerNode, size_of

MOST_NAMES: Final = 1_000_000
"""Bytes of names, once for each NUMA node: the ledger hands all of them on, and Temporal takes 2 MB at a time."""
MOST_ANSWERS: Final = 500_000
"""Bytes of what plugins answered: the checkpoint is hashed at each change, which takes seconds for so much."""


def refuse_long_names(known: Assignments, request: Request, devices: PerNode) -> None:
    """Raise DevicesUnavailable if the names of all containers' devices would be too long with these."""
    others = sum(size_of(one.devices) for one in _others(known, request))
    _refuse("the names of its devices have", size_of(devices), others, MOST_NAMES)


def refuse_long_answer(known: Assignments, request: Request, answer: bytes) -> None:
    """Raise DevicesUnavailable if the answers of all plugins would be too long with this one."""
    others = sum(len(one.answer or b"") for one in _others(known, request))
    _refuse("the plugin's answer has", len(answer), others, MOST_ANSWERS)


def _others(known: Assignments, request: Request) -> Iterable[Assigned]:
    this = request.uid, request.container, request.resource
    return (assigned for *other, assigned in known.entries() if tuple(other) != this)


def _refuse(what: str, mine: int, others: int, most: int) -> None:
    if mine + others > most:
        raise DevicesUnavailable(f"{what} {mine} bytes, and those of others {others}: together more than {most}")
