"""Which pods are stopped so that a critical one has room (pkg/kubelet/preemption/preemption.go).

Asked when the node lacks resources for a pod, with all reasons against it: if one of them is not about resources, nothing is
preempted. The set is the kubelet's, the smallest by distance: as few Guaranteed pods as possible, then Burstable, then
BestEffort ones.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from proto.kubernetes.resources.qos import QosClass
from proto.kubernetes.resources.quantity import ZERO
from proto.temporal.eviction.candidates import Candidate
from proto.temporal.pod_inputs import Rejected
from workflows.decide.eviction.amounts import size_text

REASON: Final = "Preempting"
MESSAGE: Final = "Preempted in order to admit critical pod"
"""Of a pod that is stopped; it keeps its own grace period."""
_NAMED: Final = 5
"""How many pods a sentence names."""
_IN_BYTES: Final = ("memory", "ephemeral-storage")
FAILED: Final = "UnexpectedAdmissionError"
_FAILED_PREFIX: Final = "Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods to preempt: "


@dataclass(frozen=True, slots=True)
class Lack:
    """A resource of which too little is left (lifecycle.InsufficientResourceError); cpu in thousandths."""

    resource: str
    requested: int
    used: int
    capacity: int

    @property
    def amount(self) -> int:
        """How much is missing (GetInsufficientAmount)."""
        return self.requested - (self.capacity - self.used)

    @property
    def rejection(self) -> Rejected:
        """The rejection of a pod for which nobody is stopped."""
        amounts = f"requested: {self.requested}, used: {self.used}, capacity: {self.capacity}"
        return Rejected(f"OutOf{self.resource}", f"Node didn't have enough resource: {self.resource}, {amounts}")


Reason = Lack | Rejected
"""Why a node does not take a pod."""


@dataclass(frozen=True, slots=True)
class Preemption:
    """The answer for a pod that does not fit: stop these pods and admit it, or reject it."""

    victims: tuple[Candidate, ...] = ()
    rejected: Rejected | None = None
    lacks: tuple[Lack, ...] = ()
    """What the victims give."""
    spared: tuple[Candidate, ...] = ()
    """Those that could have been stopped as well."""

    @property
    def signal(self) -> str:
        """The resource that the metric kubelet_preemptions names: the first that lacks."""
        return self.lacks[0].resource if self.lacks else ""


Needs = tuple[tuple[str, int], ...]
"""What is still missing: resource and amount, in the order of the reasons."""


class _NotEnough(Exception):
    """No set of pods has what is missing."""


def preempt(preemptor: Candidate, pods: Sequence[Candidate], reasons: Sequence[Reason]) -> Preemption:
    """Decide about a pod that does not fit beside `pods`, for these reasons."""
    lacks = [one for one in reasons if isinstance(one, Lack)]
    if not preemptor.critical or len(lacks) < len(reasons):
        return Preemption(rejected=first_reason(reasons, critical=preemptor.critical))
    try:
        victims = _victims(preemptor, pods, tuple((one.resource, one.amount) for one in lacks))
    except _NotEnough as error:
        return Preemption(rejected=Rejected(FAILED, f"{_FAILED_PREFIX}{error}"))
    spared = tuple(one for one in pods if may_preempt(preemptor, one) and one not in victims)
    return Preemption(victims, None, tuple(lacks), spared)


def why_this_one(victim: Candidate, preemptor: Candidate, found: Preemption) -> str:
    """Say why this pod is stopped and not another."""
    needs = _listed(_amount(one.resource, one.amount) for one in found.lacks)
    gives = _listed(_amount(one.resource, request(victim, one.resource)) for one in found.lacks)
    said = f"{preemptor.full_name} needs {needs} more than is left, and this {victim.qos} pod requests {gives}"
    if others := [one.full_name for one in found.victims if one.uid != victim.uid]:
        said += f"; stopped with it: {_shortened(others)}"
    if found.spared:
        spared = [f"{one.full_name} ({one.qos})" for one in found.spared]
        said += f"; not needed besides: {_shortened(spared)}"
    return said


def first_reason(reasons: Sequence[Reason], *, critical: bool) -> Rejected | None:
    """Return the reason that a pod is rejected with: the first; for a critical one, the first that is not a lack."""
    others = [one for one in reasons if isinstance(one, Rejected)]
    if critical and others:
        return others[0]
    return next((one.rejection if isinstance(one, Lack) else one for one in reasons), None)


def may_preempt(preemptor: Candidate, pod: Candidate) -> bool:
    """Report whether a pod may be stopped for another one (kubetypes.Preemptable)."""
    if preemptor.critical and not pod.critical:
        return True
    return preemptor.priority is not None and pod.priority is not None and preemptor.priority > pod.priority


def request(pod: Candidate, resource: str) -> int:
    """Return a pod's request in the units of `Lack` (pkg/api/v1/resource GetResourceRequest)."""
    if resource == "pods":
        return 1
    amount = pod.requests.get(resource, ZERO)
    return amount.milli if resource == "cpu" else amount.value


def _victims(preemptor: Candidate, pods: Sequence[Candidate], needs: Needs) -> tuple[Candidate, ...]:
    """Choose the pods, class by class; each class is only asked for what those below it cannot give (getPodsToPreempt)."""
    by_class = {one: [pod for pod in pods if pod.qos is one and may_preempt(preemptor, pod)] for one in QosClass}
    best_effort, burstable = by_class[QosClass.BEST_EFFORT], by_class[QosClass.BURSTABLE]
    guaranteed = by_class[QosClass.GUARANTEED]
    if left := _less(needs, [*best_effort, *burstable, *guaranteed]):
        raise _NotEnough(_no_set(left))
    of_guaranteed = _nearest(guaranteed, _less(needs, [*best_effort, *burstable]))
    of_burstable = _nearest(burstable, _less(needs, [*best_effort, *of_guaranteed]))
    of_best_effort = _nearest(best_effort, _less(needs, [*of_burstable, *of_guaranteed]))
    return (*of_best_effort, *of_burstable, *of_guaranteed)


def _nearest(pods: Sequence[Candidate], needs: Needs) -> list[Candidate]:
    """Take the pod that comes nearest to what is missing until nothing is (getPodsToPreemptByDistance).

    Of two that are equally near the smaller one, and of equal ones the later. What is taken is replaced by the last pod, which
    decides among equals in the next turn.
    """
    left, taken = list(pods), []
    while needs:
        if not left:
            raise _NotEnough(_no_set(needs))
        best, best_distance = 0, float(len(needs) + 1)
        for place, pod in enumerate(left):
            distance = _distance(pod, needs)
            if distance < best_distance or (distance == best_distance and _size(pod) <= _size(left[best])):
                best, best_distance = place, distance
        needs = _less(needs, [left[best]])
        taken.append(left[best])
        left[best] = left[-1]
        left.pop()
    return taken


def _distance(pod: Candidate, needs: Needs) -> float:
    """Sum the squares of the shares that would still be missing."""
    missing = ((amount, amount - request(pod, resource)) for resource, amount in needs)
    shares = [float(left) / float(amount) for amount, left in missing if left > 0]
    distance = 0.0  # added one by one, as in Go: from Python 3.12 on sum() rounds otherwise
    for share in shares:
        distance += share * share
    return distance


def _size(pod: Candidate) -> tuple[int, int]:
    """What makes a pod smaller than another (smallerResourceRequest)."""
    return request(pod, "memory"), request(pod, "cpu")


def _less(needs: Needs, pods: Sequence[Candidate]) -> Needs:
    """Return what is missing without these pods (admissionRequirementList.subtract)."""
    left = ((resource, amount - sum(request(pod, resource) for pod in pods)) for resource, amount in needs)
    return tuple((resource, amount) for resource, amount in left if amount > 0)


def _amount(resource: str, amount: int) -> str:
    """Write an amount in the units of `Lack`."""
    if resource == "pods":
        return "1 place" if amount == 1 else f"{amount} places"
    text = f"{amount}m" if resource == "cpu" else size_text(amount) if resource in _IN_BYTES else str(amount)
    return f"{text} {resource}"


def _listed(amounts: Iterable[str]) -> str:
    return " and ".join(amounts)


def _shortened(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _no_set(needs: Needs) -> str:
    listed = "".join(f"(res: {resource}, q: {amount}), " for resource, amount in needs)
    return f"no set of running pods found to reclaim resources: [{listed}]"
