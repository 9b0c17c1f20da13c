"""Evictions that relieve the node, requested by the Update EvictPod: by the node under pressure or for a critical pod, or by an operator.

The pod is stopped, has failed (a pod of the API whose containers all exit with 0 has succeeded), and stays so until its source no longer
lists it (pkg/kubelet/eviction evictPod). Which pod
the node chooses is decided in `workflows/decide/eviction/`. System pods are never evicted, but end with their machine, and one of them may preempt
another. The kubelet also spares every static pod; here an operator who asks knows that it comes back only with its manifest.
"""

import re
from collections.abc import Iterator
from typing import Final

from proto.kubernetes.priority import is_critical
from proto.temporal.operator import GOING, EvictPod, PodEvicted
from proto.temporal.pod import Lifecycle
from proto.temporal.pod_inputs import Eviction
from workflows.decide.ending.grace import eviction_grace, pod_grace
from workflows.decide.manifest.fields.field_errors import invalid, too_long
from workflows.decide.operator.operator_stops import kills_at
from workflows.decide.refusal import Refusal
from workflows.decide.situation import Situation
from workflows.decide.status.phase import TERMINAL, may_succeed
from workflows.decide.status.status import pod_status
from workflows.decide.steps.termination import prepare_termination

REASON: Final = re.compile("[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_:])?", re.ASCII)
"""The pattern of metav1.Condition."""
LONGEST_REASON: Final = 253
LONGEST_MESSAGE: Final = 4096
"""Bytes; each container's stop repeats the message."""


def why_no_eviction(situation: Situation, asked: EvictPod) -> Refusal | None:
    """Return why this pod is not evicted: Critical, Finished, Going or Invalid."""
    pod, observed = situation.key, situation.observed
    if is_critical(situation.source) and not (asked.shutdown or asked.preempted_for):
        return Refusal("Critical", f"{pod} is a pod of the system by its priority, which is never evicted")
    if observed.lifecycle is Lifecycle.TERMINATED or pod_status(situation).phase in TERMINAL:
        return Refusal("Finished", f"{pod} has finished: nothing of it is left to evict")
    if observed.lifecycle is not Lifecycle.SYNC or observed.deletion or observed.eviction:
        return Refusal(GOING, f"{pod} is terminating already: `tempolet stop {pod}` shortens its grace period")
    if faults := "; ".join(faults_of(asked)):
        return Refusal("Invalid", faults)
    return None


def faults_of(asked: EvictPod) -> Iterator[str]:
    """List what is wrong with the reason and message for the status."""
    if not REASON.fullmatch(asked.reason):
        yield invalid("reason", asked.reason, "must be one word in CamelCase")
    if len(asked.reason.encode()) > LONGEST_REASON:
        yield too_long("reason", LONGEST_REASON)
    if len(asked.message.encode()) > LONGEST_MESSAGE:
        yield too_long("message", LONGEST_MESSAGE)


def evicted(situation: Situation, asked: EvictPod) -> PodEvicted:
    """Return the Update's answer."""
    eviction = eviction_of(situation, asked)
    grace = eviction_grace(eviction, pod_grace(situation.spec, None))
    return PodEvicted(
        asked.operator, eviction.reason, eviction.message, grace.length, kills_at(situation, grace), asked.why
    )


def eviction_of(situation: Situation, asked: EvictPod) -> Eviction:
    """Return the eviction that is asked for; its grace period is never longer than the pod's own."""
    own = pod_grace(situation.spec, None)
    grace = None if asked.grace is None else min(pod_grace(situation.spec, asked.grace), own)
    message = asked.message or f"The pod was evicted by {asked.operator}"
    return Eviction(
        situation.now,
        asked.reason,
        message,
        grace,
        disrupts=asked.disrupts,
        why=asked.why,
        annotations=dict(asked.annotations),
        preempted_for=asked.preempted_for,
        may_succeed=may_succeed(situation),
    )


def evict(situation: Situation, asked: EvictPod) -> None:
    """Record the eviction; a pod that has ended meanwhile keeps its phase."""
    if why_no_eviction(situation, asked) is None:
        prepare_termination(situation.observed)
        situation.observed.eviction = eviction_of(situation, asked)
