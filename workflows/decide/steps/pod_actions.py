"""Decides what to do now for a pod, and when to decide again; the workflow's loop calls it on every pass.

It corresponds to the kubelet's computePodActions, and covers terminating pods too. The answer depends only on the
`Situation`, so a replay decides the same.
"""

from dataclasses import dataclass

from proto.temporal.activities.requests import ReadPodRuntime
from proto.temporal.pod import Lifecycle
from workflows.decide.actions import Action, Wake, holds_reread, key
from workflows.decide.ending.deadline import await_deadline
from workflows.decide.situation import Situation, unless_backing_off
from workflows.decide.steps.order import ORDER


@dataclass(frozen=True, slots=True)
class Plan:
    """Actions to begin now, and times to wait for."""

    begin: tuple[Action, ...] = ()
    waits: tuple[Wake, ...] = ()
    """Without duplicates, in the order of the steps."""
    complete: bool = True
    """False: some steps were not asked, so `waits` may lack some."""

    @property
    def wake(self) -> Wake | None:
        """The earliest wait; the first of those with the same time."""
        return min(self.waits, key=lambda one: one.at, default=None)


def pod_actions(situation: Situation) -> Plan:
    """Return what to do now and what to wait for; of two actions with one key the first is taken."""
    begin: dict[str, Action] = {}
    waits: dict[Wake, None] = {}
    for answer in answers(situation):
        if isinstance(answer, Wake):
            waits[answer] = None
        else:
            begin.setdefault(key(answer), answer)
    return Plan(tuple(begin.values()), tuple(waits), complete=not is_rereading(situation))


def is_rereading(situation: Situation) -> bool:
    """Report whether a re-read of the runtime is under way or due, so that not every step is asked."""
    if situation.is_busy("runtime"):
        return True
    if not situation.observed.runtime_stale:
        return False
    held = any(holds_reread(action) for action in situation.busy.values())
    return not held or (situation.observed.lifecycle is Lifecycle.SYNC and situation.is_busy("images"))


def answers(situation: Situation) -> list[Action | Wake]:
    """Ask every step for its actions and waits; during a re-read nothing begins that the re-read could miss."""
    if situation.is_busy("runtime"):
        return []
    if situation.observed.runtime_stale and not any(holds_reread(action) for action in situation.busy.values()):
        return unless_backing_off(situation, ReadPodRuntime(situation.key))
    if situation.observed.lifecycle is Lifecycle.SYNC:
        if situation.observed.runtime_stale and situation.is_busy("images"):
            # the re-read begins when the image check ends; a container started before it could be in a lost sandbox
            return [*await_deadline(situation)]
        return [*(answer for step in ORDER for answer in step.do(situation)), *await_deadline(situation)]
    return undo(situation)


def undo(situation: Situation) -> list[Action | Wake]:
    """Return what to undo next: that of the last step in the order that has something to undo or is busy."""
    for step in reversed(ORDER):
        found = list(step.undo(situation))
        if found or situation.is_busy(*step.keys):
            return found
    return []


def is_over(situation: Situation) -> bool:
    """Report whether the workflow may end: the pod is deleted, and nothing of it is left on the node or in the API."""
    observed = situation.observed
    gone = observed.cleaned and (observed.object_deleted or not situation.from_api)
    return observed.lifecycle is Lifecycle.TERMINATED and gone
