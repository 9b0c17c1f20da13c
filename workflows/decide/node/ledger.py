"""The ledger of exclusive hardware: which pod is given some next, what was given, and what is free again.

Used by NodeLoop. The worker chooses (`worker/hardware/`), because only the machine knows what it has. The ledger compares the
choice with what others have, so that nothing is given twice, whatever happens to a worker. Pods that are over have nothing: each
request names those that count.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from proto.temporal.hardware.ledger import UNEXPECTED, Admit, AllocateHardware, PodAssignment
from proto.temporal.node import NodeObserved
from proto.temporal.pod import PodJson
from workflows.decide.cpus.cpu_sets import CpuListError, parse_cpus
from workflows.decide.node.actions import HARDWARE
from workflows.decide.refusal import Refusal

IN_FLIGHT: Final = 10
"""Requests at a time; Temporal takes no more either."""
_BUSY: Final = Refusal("TooManyAdmissions", f"{IN_FLIGHT} pods wait for hardware already; ask again in a second")
_NO_POD: Final = Refusal("Malformed", "the request names no pod")
TOO_OLD: Final = Refusal(
    "NotYet", "the node's workflow follows an older behaviour: commit to the newer one (`tempolet behaviour commit`)"
)
NEXT_RUN: Final = Refusal("NextRun", "the node's workflow is about to continue as new; ask again in a second")


def uid_of(pod: PodJson) -> str:
    """Return a pod's uid; empty if it has none."""
    metadata = pod.get("metadata") or {}
    named = all(isinstance(metadata.get(one), str) and metadata[one] for one in ("namespace", "name", "uid"))
    return str(metadata["uid"]) if named else ""


def why_not(asked: Admit, waiting: int) -> Refusal | None:
    """Return why a request is refused while so many wait."""
    if not uid_of(asked.pod):
        return _NO_POD
    return _BUSY if waiting >= IN_FLIGHT else None


def admitted(observed: NodeObserved, asked: Admit) -> bool:
    """Free what pods have that count no more, and report whether this one was given its own before."""
    uid, counting = uid_of(asked.pod), frozenset(asked.counting)
    observed.assignments = {one: had for one, had in observed.assignments.items() if one == uid or one in counting}
    return uid in observed.assignments


def allocations(
    observed: NodeObserved, admissions: Sequence[Admit], busy: Collection[str]
) -> Iterator[AllocateHardware]:
    """Return the next choice, one at a time."""
    if admissions and not any(key.startswith(f"{HARDWARE}/") for key in busy):
        first = admissions[0]
        yield AllocateHardware(first.pod, dict(observed.assignments), first.counting)


def recorded(observed: NodeObserved, asked: AllocateHardware, given: PodAssignment) -> None:
    """Record what was given; a pod that was given nothing is not in the ledger."""
    if given.containers and not conflict(observed, asked, given):
        observed.assignments[uid_of(asked.pod)] = given


def conflict(observed: NodeObserved, asked: AllocateHardware, given: PodAssignment) -> Refusal | None:
    """Return why a choice is refused: another pod has something of it, which only a defect of the worker can bring about."""
    mine, uid = _parts(given), uid_of(asked.pod)
    for other, had in observed.assignments.items():
        if other != uid and (both := mine & _parts(had)):
            what = ", ".join(sorted(f"{kind} {name}" for kind, name in both))
            return Refusal(UNEXPECTED, f"{what} of {had.namespace}/{had.name} would be given twice")
    return None


def _parts(given: PodAssignment) -> frozenset[tuple[str, str]]:
    """List the parts of the machine that one pod alone may have."""
    found = set[tuple[str, str]]()
    for one in given.containers.values():
        try:
            found |= {("CPU", str(cpu)) for cpu in parse_cpus(one.cpus)}
        except CpuListError:
            found.add(("CPUs", one.cpus))
        found |= {(devices.resource, name) for devices in one.devices for name in devices.ids}
    return frozenset(found)
