"""The next call that a pod of the API needs: the pure part of `api_pods`."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from worker.poller.calls.open_workflows import OpenPod
from worker.poller.cluster.api_pod import ApiPod
from workflows.decide.record.listing import lasting

LONG_AGO: Final = float("-inf")


@dataclass(frozen=True, slots=True)
class StartPod:
    """Signal the pod's workflow that the pod is listed; start the workflow if there is none."""

    pod: ApiPod


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Request the deletion of a pod with a deletionTimestamp; start the workflow if there is none."""

    pod: ApiPod


@dataclass(frozen=True, slots=True)
class TellStatus:
    """Signal what others have written into the pod's status."""

    pod: ApiPod


@dataclass(frozen=True, slots=True)
class RemovePod:
    """The API does not list the pod any more: confirm that, then request the deletion."""

    workflow_id: str
    grace: timedelta | None = None
    """The last grace period in the API; None: the pod's own."""


Call = StartPod | DeletePod | TellStatus | RemovePod


@dataclass(slots=True)
class Known:
    """The desired and the known state of one pod, by its uid."""

    desired: ApiPod | None = None
    signalled: ApiPod | None = None
    """What its workflow was last signalled."""
    signalled_at: float = LONG_AGO
    tried: bool = False
    """A start may have succeeded without a response, or is not yet visible; the next start signals everything again."""
    open: OpenPod | None = None
    """Its workflow, if it is open or was a moment ago."""
    deletions_requested: bool = False
    leads: int = 0
    """How often the pod's lead has changed: what was called before counts for the former lead alone."""
    last: ApiPod | None = None
    """The pod as the API last had it, once it is not listed any more: a deletion without grace is followed by the
    removal of the object at once, and both are often seen together."""

    def next_call(self, *, open_known: bool, shown_phase: str) -> Call | None:
        """Return the next call; `shown_phase`: the phase in its snapshot, empty if nothing of the pod is here."""
        pod, signalled = self.desired, self.signalled
        if pod is None:
            return self._removal(self.open.workflow_id, shown_phase) if self.open and open_known else None
        if pod.deleted:
            return None if signalled and self.knows_deletion(signalled, pod, shown_phase) else DeletePod(pod)
        if pod.ended and not self.open:
            return None  # a pod that has ended in the API never runs again, and has no workflow to signal
        if signalled is None or signalled.pending_resize != pod.pending_resize:
            return StartPod(pod)
        if lasting(signalled.pod) != lasting(pod.pod):
            return StartPod(pod)
        ended_anew = pod.ended and not signalled.ended and pod.ended.phase != shown_phase
        return TellStatus(pod) if ended_anew or signalled.conditions != pod.conditions else None

    def tell_anew(self) -> None:
        """Forget what its workflow was told."""
        self.leads += 1
        self.signalled, self.deletions_requested, self.tried = None, False, True

    @contextlib.contextmanager
    def deletion_is_requested(self) -> Iterator[None]:
        """Know of a deletion from the call on that requests it, because containers may end before its answer; not if the call fails."""
        before, self.deletions_requested = self.deletions_requested, True
        try:
            yield
        except BaseException:
            self.deletions_requested = before
            raise

    def knows_deletion(self, signalled: ApiPod, pod: ApiPod, shown_phase: str) -> bool:
        """Report whether its workflow knows the current deletion, or has ended, or has nothing left to end sooner.

        The last step of a pod's workflow deletes the object without grace, which is seen here as a shorter grace
        period, too.
        """
        nothing_left = pod.ended is not None and not shown_phase
        return signalled.deleted and (signalled.grace == pod.grace or nothing_left or (pod.held and self.open is None))

    def _removal(self, workflow_id: str, shown_phase: str) -> RemovePod | None:
        last = self.last if self.last and self.last.deleted else None
        if self.deletions_requested and (
            last is None or self.signalled is None or self.knows_deletion(self.signalled, last, shown_phase)
        ):
            return None
        return RemovePod(workflow_id, last.grace if last else None)

    @property
    def settled(self) -> bool:
        """Neither desired nor open."""
        return self.desired is None and self.open is None


def listed(pod: ApiPod, before: ApiPod | None) -> ApiPod:
    """Return what an open workflow knows after the pod was listed to it; a listing does not include the status."""
    return replace(pod, ended=before.ended if before else None, conditions=before.conditions if before else {})


def seen_again(pod: ApiPod, before: ApiPod | None) -> ApiPod:
    """Reuse the pod's JSON if only the status has changed: it is most of the memory, and one copy is enough."""
    if before is None or lasting(before.pod) != lasting(pod.pod):
        return pod
    return replace(pod, pod=before.pod)
