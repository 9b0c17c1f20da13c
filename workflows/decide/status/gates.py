"""Conditions that others set, and those that the pod's readiness depends on: spec.readinessGates.

Used for the conditions, by explain, and for the Update SetCondition. A condition of others is kept as it was set; only
the node sets those of the kubelet (pkg/kubelet/types/pod_status.go).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from kubernetes.client.models.v1_pod_condition import V1PodCondition

from proto.temporal.operator import SetCondition
from proto.temporal.pod import Observed
from proto.temporal.pod_inputs import GivenCondition
from proto.temporal.resources import RESIZE_IN_PROGRESS, RESIZE_PENDING
from workflows.decide.manifest.fields import names
from workflows.decide.manifest.fields.field_errors import invalid, not_supported, quoted, too_long
from workflows.decide.refusal import Refusal
from workflows.decide.situation import Situation

OUR_OWN: Final = (
    "PodScheduled",
    "Ready",
    "Initialized",
    "ContainersReady",
    "PodReadyToStartContainers",
    RESIZE_PENDING,
    RESIZE_IN_PROGRESS,
    "AllContainersRestarting",
    "DisruptionTarget",
)
"""Conditions that a node sets itself; the last one is shared with the API's controllers, but not with operators."""
STATUSES: Final = ("True", "False", "Unknown")
LONGEST_REASON: Final = 1024
LONGEST_MESSAGE: Final = 32768
"""Bytes. Pod conditions have no limits, so those of metav1.Condition apply."""


def given(observed: Observed) -> Iterator[V1PodCondition]:
    """List the conditions that others have set, in the order in which they first came."""
    for name, said in observed.given_conditions.items():
        yield V1PodCondition(
            type=name,
            status=said.status,
            reason=said.reason or None,
            message=said.message or None,
            last_transition_time=said.since,
        )


def unmet(asked: Iterable[str], known: Mapping[str, str]) -> Iterator[str]:
    """Explain each readiness gate that is not True, in the kubelet's words; `known` has the status of every condition."""
    for gate in asked:
        status = known.get(gate)
        name = quoted(gate)
        if status is None:
            yield f"corresponding condition of pod readiness gate {name} does not exist."
        elif status != "True":
            yield f'the status of pod readiness gate {name} is not "True", but {status}'


def settable(situation: Situation) -> Iterator[str]:
    """Name the readiness gates whose condition is not True yet."""
    for gate in situation.spec.readiness_gates or ():
        if gate.condition_type not in OUR_OWN and status_before(situation, gate.condition_type) != "True":
            yield gate.condition_type


def why_not(situation: Situation, asked: SetCondition) -> Refusal | None:
    """Return why an operator may not set this condition: NotYours, Invalid or Unchanged."""
    if asked.type in OUR_OWN:
        message = f"condition {asked.type} is the node's own: the node sets it from what it observes"
        return Refusal("NotYours", message)
    if faults := list(faults_of(asked)):
        return Refusal("Invalid", "; ".join(faults))
    known = situation.observed.given_conditions.get(asked.type)
    if known and (known.status, known.reason, known.message) == (asked.status, asked.reason, asked.message):
        return Refusal("Unchanged", f"condition {asked.type} of {situation.key} is {asked.status} already")
    return None


def faults_of(asked: SetCondition) -> Iterator[str]:
    """List what is wrong with a condition, in the API's words (ValidatePodStatusUpdate, validatePodConditions)."""
    yield from (invalid("type", asked.type, one) for one in names.qualified_name(asked.type))
    if asked.status not in STATUSES:
        yield not_supported("status", asked.status, STATUSES)
    if len(asked.reason.encode()) > LONGEST_REASON:
        yield too_long("reason", LONGEST_REASON)
    if len(asked.message.encode()) > LONGEST_MESSAGE:
        yield too_long("message", LONGEST_MESSAGE)


def status_before(situation: Situation, name: str) -> str:
    """Return the status of a condition of others; empty if it is not set."""
    known = situation.observed.given_conditions.get(name)
    return known.status if known else ""


def set_condition(situation: Situation, asked: SetCondition) -> None:
    """Record a condition; it keeps its time while its status stays."""
    known = situation.observed.given_conditions.get(asked.type)
    since = known.since if known and known.status == asked.status else situation.now
    situation.observed.given_conditions[asked.type] = GivenCondition(asked.status, since, asked.reason, asked.message)
