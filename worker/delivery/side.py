"""Which side a message goes to next, and which pods are told everything anew. Pure: `deliveries.py` makes the calls.

Temporal comes first. If it does not take a message in time, the worker is told. Once the worker takes one, it leads the pod,
and the pod's messages go to it until it says that Temporal leads.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from worker.delivery.lead import Leads, PodLead


class Side(StrEnum):
    """Who gets a pod's messages."""

    TEMPORAL = "temporal"
    WORKER = "worker"


class Temporal(StrEnum):
    """How far the call to Temporal is."""

    NOT_CALLED = "not called"
    PENDING = "pending"
    SLOW = "slow"
    """Unanswered for longer than the sender's patience; it goes on."""
    ANSWERED = "answered"
    """Taken, or refused for good."""
    AWAY = "away"
    """It failed because Temporal is unavailable."""


class Worker(StrEnum):
    """What the worker has answered about this message."""

    NOT_ASKED = "not asked"
    TAKEN = "taken"
    NOT_TAKEN = "not taken"
    """Temporal leads the pod, or the worker does not know it."""
    SILENT = "silent"


class Step(StrEnum):
    """What a sender does next for one message."""

    CALL_TEMPORAL = "call Temporal"
    AWAIT_TEMPORAL = "await Temporal"
    ASK_WORKER = "ask the worker"
    DONE = "done"
    FAIL = "fail"
    """Nobody has taken it: it is needed again."""


def next_step(side: Side, temporal: Temporal, worker: Worker) -> tuple[Step, Side]:
    """Return the next step for a message, and the side of its pod from now on."""
    if temporal is Temporal.ANSWERED:
        return Step.DONE, side
    match side, worker:
        case _, Worker.TAKEN:
            return Step.DONE, Side.WORKER
        case Side.WORKER, Worker.NOT_ASKED:
            return Step.ASK_WORKER, Side.WORKER
        case Side.WORKER, Worker.SILENT:
            return Step.FAIL, Side.WORKER
    match temporal, worker:
        case Temporal.NOT_CALLED, _:
            return Step.CALL_TEMPORAL, Side.TEMPORAL
        case Temporal.PENDING, _:
            return Step.AWAIT_TEMPORAL, Side.TEMPORAL
        case _, Worker.NOT_ASKED:
            return Step.ASK_WORKER, Side.TEMPORAL
        case Temporal.SLOW, _:
            return Step.AWAIT_TEMPORAL, Side.TEMPORAL
    return Step.FAIL, Side.TEMPORAL


@dataclass(frozen=True, slots=True)
class Seen:
    """What one sender knows of all leads."""

    pods: Mapping[str, PodLead]
    is_first: bool = False
    """Nothing was known before: what this sender has told until now went to Temporal."""


NOTHING_SEEN = Seen({}, is_first=True)


def changed(before: Seen, now: Leads) -> frozenset[str]:
    """Return the pods whose lead has changed since, even if it has changed back.

    At first these are the pods that the worker leads: what was told before went to Temporal.
    """
    pods = before.pods.keys() | now.pods.keys()
    return frozenset(one for one in pods if _has_changed(before, one, now.pods.get(one)))


def _has_changed(before: Seen, workflow_id: str, now: PodLead | None) -> bool:
    was = before.pods.get(workflow_id, PodLead())
    if now is None:  # its life is over, or the worker that led it is gone
        return was.by_worker
    if before.is_first:
        return now.by_worker
    return now != was
