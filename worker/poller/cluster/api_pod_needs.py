"""What one pod of the API needs next: the pure part of `api_pods`."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from worker.poller.calls.pod_workflows import OpenPod
from worker.poller.cluster.api_pod import ApiPod
from workflows.decide.record.listing import lasting

LONG_AGO: Final = float("-inf")


@dataclass(frozen=True, slots=True)
class StartPod:
    """List this pod to its workflow, starting it where there is none."""

    pod: ApiPod


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Ask the workflow of a pod with a deletionTimestamp to take it down, starting it where there is none."""

    pod: ApiPod


@dataclass(frozen=True, slots=True)
class TellStatus:
    """Tell the workflow what others have written into the pod's status."""

    pod: ApiPod


@dataclass(frozen=True, slots=True)
class RemovePod:
    """The API lists the pod no more: make sure of that, and ask its workflow to take it down."""

    workflow_id: str
    grace: timedelta | None = None
    """What the API gave it at the last; None: its own."""


Call = StartPod | DeletePod | TellStatus | RemovePod


@dataclass(slots=True)
class Known:
    """What is wanted and known of one pod, by its uid."""

    wanted: ApiPod | None = None
    told: ApiPod | None = None
    """What its workflow was told last."""
    told_at: float = LONG_AGO
    tried: bool = False
    """A start may have arrived that has no answer, or whose workflow visibility did not show: who starts it again says all."""
    open: OpenPod | None = None
    """Its workflow, which is, or was a moment ago, open."""
    asked_to_go: bool = False
    last: ApiPod | None = None
    """How it was when the API last had it, once that has it no more: a deletion without grace is followed by the object's end at
    once, and often both are seen together."""

    def next_call(self, *, open_known: bool, shown_phase: str) -> Call | None:
        """Say what to do next; `shown_phase`: what its own workflow shows, empty where nothing of it is on this node."""
        pod, told = self.wanted, self.told
        if pod is None:
            return self._removal(self.open.workflow_id, shown_phase) if self.open and open_known else None
        if pod.deleted:
            return None if told and self.is_told_to_go(told, pod, shown_phase) else DeletePod(pod)
        if pod.ended and not self.open:
            return None  # what has ended in the API never runs again, and has nobody to be told
        if told is None or lasting(told.pod) != lasting(pod.pod):
            return StartPod(pod)
        ended_anew = pod.ended and not told.ended and pod.ended.phase != shown_phase
        return TellStatus(pod) if ended_anew or told.conditions != pod.conditions else None

    def is_told_to_go(self, told: ApiPod, pod: ApiPod, shown_phase: str) -> bool:
        """Say whether its workflow knows of the deletion as it is now, or has nothing left that could end sooner, or has ended.

        The last step of a pod's life, its object's deletion without grace, is seen here as a shorter grace, too.
        """
        nothing_left = pod.ended is not None and not shown_phase
        return told.deleted and (told.grace == pod.grace or nothing_left or (pod.held and self.open is None))

    def _removal(self, workflow_id: str, shown_phase: str) -> RemovePod | None:
        last = self.last if self.last and self.last.deleted else None
        if self.asked_to_go and (last is None or self.told is None or self.is_told_to_go(self.told, last, shown_phase)):
            return None
        return RemovePod(workflow_id, last.grace if last else None)

    @property
    def settled(self) -> bool:
        """Nothing of it is wanted or open."""
        return self.wanted is None and self.open is None


def listed(pod: ApiPod, before: ApiPod | None) -> ApiPod:
    """Say what an open workflow knows once the pod was listed to it: a listing tells nothing of the status."""
    return replace(pod, ended=before.ended if before else None, conditions=before.conditions if before else {})


def seen_again(pod: ApiPod, before: ApiPod | None) -> ApiPod:
    """Keep what was read before where only the status has changed: most of what is held of a pod is its JSON, and one copy is enough."""
    if before is None or lasting(before.pod) != lasting(pod.pod):
        return pod
    return replace(pod, pod=before.pod)
