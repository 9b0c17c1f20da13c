"""Decides whether a node has to expand a volume, and what a failure means for the claim; pure.

The rules are the kubelet's (operationexecutor expandVolumeDuringMount, nodeExpandVolume and NodeExpander.runPreCheck,
csi/expander.go). A controller that does not say in the claim's status how far it is (`allocatedResourceStatuses`,
`allocatedResources`) is an old one: then the volume's capacity alone counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from proto.kubernetes.resources.quantity import QuantityError, parse_quantity

PENDING: Final = "NodeResizePending"
IN_PROGRESS: Final = "NodeResizeInProgress"
INFEASIBLE: Final = "NodeResizeInfeasible"
NOT_REQUIRED: Final = "volume.kubernetes.io/node-expansion-not-required"
_MANY_WRITERS: Final = "ReadWriteMany"
_INFEASIBLE_CODES: Final = frozenset({"InvalidArgument", "OutOfRange", "NotFound"})
_IN_USE: Final = "FailedPrecondition"


class Verdict(Enum):
    """What to do about a volume."""

    FITS = "it has its size"
    READ_ONLY = "the pod may not write to it"
    WAITS = "the controller has not finished its part"
    DONE = "it was expanded elsewhere, and needs nothing here"
    EXPAND = "its driver has to expand it"


@dataclass(frozen=True, slots=True)
class Expansion:
    """What to do about a volume, and its new size."""

    verdict: Verdict
    size: str = ""
    """A quantity, as the API has it."""
    follows_status: bool = True
    """The controller keeps the claim's status, so the node has to, too."""
    known: bool = False
    """The claim has the new size already: another node has expanded it, and the status stays."""
    other_size_asked: bool = False
    """Somebody has changed the claim since: after a failure the controller should take that up."""

    @property
    def bytes(self) -> int:
        """The new size."""
        return _bytes(self.size)


class Failure(Enum):
    """What a failed expansion means."""

    TRIED_AGAIN = "its end is unknown, or nothing was begun"
    IN_USE = "it cannot be expanded while it is used: the pod goes on with the old size"
    INFEASIBLE = "it will never succeed with this size"
    FINAL = "it has failed"


def needed_expansion(
    volume: Mapping[str, Any], claim: Mapping[str, Any], *, mounted_size: int | None = None, read_only: bool = False
) -> Expansion:
    """Decide about a PersistentVolume and the claim that it is bound to.

    `mounted_size` is the size that the node knows of a volume that is mounted; None: it is being mounted.
    """
    wanted = _storage(_part(volume, "spec"), "capacity")
    status = _part(claim, "status")
    has = _bytes(_storage(status, "capacity"))
    if _bytes(wanted) <= (has if mounted_size is None else mounted_size):
        return Expansion(Verdict.FITS)
    if read_only:
        return Expansion(Verdict.READ_ONLY)
    state = str(_part(status, "allocatedResourceStatuses").get("storage") or "")
    if not state and status.get("allocatedResources") is None:
        return Expansion(Verdict.EXPAND, wanted, follows_status=False, known=has >= _bytes(wanted))
    size = _storage(status, "allocatedResources")
    known = has >= _bytes(size) and not state
    annotations, spec = _part(_part(claim, "metadata"), "annotations"), _part(claim, "spec")
    other = _bytes(_storage(_part(spec, "resources"), "requests")) != _bytes(size)
    if known and _MANY_WRITERS in (spec.get("accessModes") or ()) and NOT_REQUIRED not in annotations:
        return Expansion(Verdict.EXPAND, size, known=True, other_size_asked=other)
    if state in {PENDING, IN_PROGRESS}:
        return Expansion(Verdict.EXPAND, size, other_size_asked=other)
    return Expansion(Verdict.DONE, size, known=True) if known else Expansion(Verdict.WAITS)


def may_need_expansion(claim: Mapping[str, Any], mounted_size: int) -> bool:
    """Report whether a claim alone leaves open that its mounted volume has to be expanded, so that has to be read."""
    status, spec = _part(claim, "status"), _part(claim, "spec")
    asked = _bytes(_storage(_part(spec, "resources"), "requests"))
    under_way = status.get("allocatedResourceStatuses") or status.get("conditions")
    return bool(under_way) or max(asked, claim_size(claim)) > mounted_size


def claim_size(claim: Mapping[str, Any]) -> int:
    """Return the size in a claim's status, in bytes."""
    return _bytes(_storage(_part(claim, "status"), "capacity"))


def failure_of(code: str, *, is_final: bool) -> Failure:
    """Say what a driver's error means, by gRPC's name of its code."""
    if not is_final:
        return Failure.TRIED_AGAIN
    if code == _IN_USE:
        return Failure.IN_USE
    return Failure.INFEASIBLE if code in _INFEASIBLE_CODES else Failure.FINAL


def _storage(of: Mapping[str, Any], field: str) -> str:
    return str(_part(of, field).get("storage") or "0")


def _bytes(quantity: str) -> int:
    """Return a quantity in bytes; one that is none counts as 0."""
    try:
        return parse_quantity(quantity).value
    except QuantityError:
        return 0


def _part(of: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    found = of.get(field)
    return found if isinstance(found, Mapping) else {}
