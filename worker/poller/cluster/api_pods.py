"""Keeps the pod workflows of this node in sync with the pods that the API binds to it.

Fed with complete lists and single changes by `api_source`, and with the open workflows by the poller. A listed pod is
started or signalled what has changed; a pod with a deletionTimestamp is terminated with that grace period; one that has
ended in the API is never started again. A pod that the API does not list any more is killed, as by the kubelet
(HandlePodRemoves), but only after the API has confirmed for this pod alone that it does not exist, and that it knows
our Node object: a server with an empty or another etcd must not empty the node.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Protocol

import structlog

from proto.refusals import BEING_ADMITTED, Refusal
from proto.temporal.names import API_SOURCE, PodWorkflowId
from proto.temporal.pod import NodeSettings, PodJson, PodStart
from proto.temporal.pod_inputs import FirstSight, Rejected
from proto.temporal.resources import ResizeVerdict
from proto.temporal.signals import DeletionRequested, PodListed, StatusGiven
from worker.poller.calls.admissions import NOT_ADMITTED_YET, Admissions
from worker.poller.calls.open_workflows import OpenPod
from worker.poller.calls.pod_workflows import VISIBILITY_LAGS, PodWorkflows, marked
from worker.poller.calls.reconciler import Reconciler
from worker.poller.calls.signal_pace import SignalPace
from worker.poller.cluster.api_pod import ApiPod
from worker.poller.cluster.api_pod_needs import (
    Call,
    DeletePod,
    Known,
    RemovePod,
    StartPod,
    TellStatus,
    listed,
    seen_again,
)
from worker.poller.cluster.hook_annotations import without_hooks
from worker.poller.resizes.resizes import Listed, Resizes
from workflows.decide.record.listing import lasting

DELETED: Final = ("PodDeleted", "its object was deleted in the API")
GONE: Final = ("PodRemoved", "the API has no object of it any more")

_log: Final = structlog.get_logger(__name__)


class StillThere(Exception):
    """The API does not confirm that a pod is gone; checked again later."""


class DeletionCheck(Protocol):
    """Confirms that a pod is gone from the API."""

    async def is_gone(self, namespace: str, name: str, uid: str) -> bool:
        """Report whether the API has no such pod and knows our Node; raises ApiAway and ApiRefused."""


@dataclass(frozen=True, slots=True)
class ApiPodsDependencies:
    """What ApiPods works with."""

    confirms: DeletionCheck
    admit: Callable[[PodJson], Awaitable[Rejected | None]]
    """Whether this node admits a new pod."""
    shown_phase: Callable[[str], str]
    """The phase that the workflow of a uid shows; empty if nothing of the pod is on this node."""
    refused: Callable[[str, Refusal | None], None]
    """Called for calls that Temporal refuses, by pod."""
    resizes: Resizes


class ApiPods:
    """Makes the calls, one at a time for each pod."""

    def __init__(
        self, workflows: PodWorkflows, node: str, settings: NodeSettings, dependencies: ApiPodsDependencies
    ) -> None:
        """Take the calls to Temporal, the input of every workflow, and the dependencies."""
        self._workflows, self._node, self._settings, self._dependencies = workflows, node, settings, dependencies
        self._known: dict[str, Known] = {}
        self._calls = Reconciler[Call](self)
        self._pace = SignalPace(self._converge)
        self._admissions = Admissions()
        self._open_known = False
        self._listed = False
        self._doubted: set[str] = set()
        """Pods that are kept though they are not listed, and for which that was logged."""

    def set_host_ips(self, addresses: tuple[str, ...]) -> None:
        """Set the node addresses that new pods are started with."""
        self._settings = replace(self._settings, host_ips=addresses)

    @property
    def listed(self) -> bool:
        """Whether the API has listed its pods."""
        return self._listed

    @property
    def pods(self) -> Iterable[ApiPod]:
        """Return the pods that the API binds to this node."""
        return (one.desired for one in self._known.values() if one.desired)

    def knows(self, uid: str) -> bool:
        """Report whether the API has listed this pod since the poller started."""
        return uid in self._known

    def set_listed(self, pods: Iterable[ApiPod]) -> None:
        """Take a complete list; new pods are started in the order of their creation, in which they are admitted."""
        self._listed = True
        by_uid = {pod.uid: pod for pod in pods}
        for uid in [uid for uid, known in self._known.items() if known.desired and uid not in by_uid]:
            self._want(uid, None, self._known[uid].desired)
        for uid, pod in sorted(by_uid.items(), key=lambda item: item[1].pod["metadata"].get("creationTimestamp") or ""):
            self._want(uid, pod)
        self._dependencies.resizes.settle()
        self._converge(list(self._known))

    def set_changed(self, pod: ApiPod, *, removed: bool = False) -> None:
        """Take one change."""
        self._want(pod.uid, *((None, pod) if removed else (pod, None)))
        self._dependencies.resizes.settle()
        self._converge([pod.uid])

    def resized(self, uid: str) -> None:
        """Tell a pod that it is granted other resources, or why not."""
        known = self._known.get(uid)
        if known and known.desired:
            known.desired = self._with_resources(known.desired, self._dependencies.resizes.of(uid))
            self._calls.changed(uid)
            self._converge([uid])

    def set_open(self, found: Iterable[OpenPod], asked_at: float) -> None:
        """Take the open workflows; `asked_at` is the loop's time before they were listed."""
        self._open_known = True
        opened = {pod.id.uid: pod for pod in found}
        for uid in opened.keys() - self._known.keys():
            self._known[uid] = Known()
        for uid, known in self._known.items():
            fresh = asked_at - known.signalled_at < VISIBILITY_LAGS
            if uid in opened:
                known.open = opened[uid]
            elif (
                not fresh
                and known.deletions_requested
                and known.desired
                and known.desired.deleted
                and known.desired.held
            ):
                known.open = None
            elif not fresh:
                self._forget_workflow(known)
        self._converge(list(self._known))

    def lost(self, uid: str) -> None:
        """Record that a workflow does not exist: its pod is started again if it is listed."""
        if known := self._known.get(uid):
            self._forget_workflow(known)
            known.tried = False
            self._converge([uid])

    def tell_anew(self, uids: Iterable[str]) -> None:
        """Tell everything again to pods whose lead has changed."""
        for uid in (led := [one for one in uids if one in self._known]):
            self._known[uid].tell_anew()
            self._calls.changed(uid)
        self._converge(led)

    def may_list(self, uid: str) -> bool:
        """Report whether the API lists this pod, or may do so: no list has arrived yet."""
        known = self._known.get(uid)
        return not self._listed or bool(known and (known.desired or known.open))

    def deletion_requested(self, uid: str) -> bool:
        """Report whether we requested the deletion of this pod."""
        known = self._known.get(uid)
        return bool(known and known.deletions_requested)

    async def close(self) -> None:
        """Stop calling."""
        self._pace.close()
        await self._calls.close()

    def next_call(self, key: str) -> Call | None:
        """Return the next call that a pod needs."""
        known = self._known[key]
        pod = known.desired or known.last
        ended = bool(pod and pod.ended)
        if (known.desired is None and not self._listed) or (ended and not self._open_known):
            return None
        shown_phase = self._dependencies.shown_phase(key) if ended else ""  # read only for pods for which it matters
        call = known.next_call(open_known=self._open_known, shown_phase=shown_phase)
        if isinstance(call, StartPod | TellStatus) and known.signalled and not (ended and not known.signalled.ended):
            return None if self._pace.holds_back(key, call.pod.full_name) else call
        return call

    async def make(self, key: str, call: Call) -> None:
        """Make a call, and record its result; after a change of the pod's lead, it counts for the former lead alone."""
        known = self._known[key]
        leads = known.leads
        try:
            await self._make(known, key, call)
        finally:
            if known.leads != leads:
                known.tell_anew()

    async def _make(self, known: Known, key: str, call: Call) -> None:
        number = self._workflows.numbers.next()
        at = asyncio.get_running_loop().time()
        match call:
            case StartPod(pod):
                start = await self._start_of(pod, known)
                may_be_open = known.signalled or known.open or known.tried or not self._open_known
                content = marked(pod.pod, self._node) if may_be_open else None
                known.tried = True
                decided = ResizeVerdict(pod.pending_resize) if content or pod.pending_resize else None
                await self._workflows.start(
                    start, PodListed(API_SOURCE, number, content, in_place=True, resize=decided)
                )
                if known.signalled:
                    self._pace.sent(key)
                self._note_signalled(known, pod if content is None else listed(pod, known.signalled), at)
            case DeletePod(pod):
                with known.deletion_is_requested():
                    await self._delete(known, pod, number, at)
            case TellStatus(pod):
                given = StatusGiven(API_SOURCE, number, dict(pod.conditions), pod.ended)
                if await self._workflows.status_given(self._id_of(pod), given):
                    known.signalled = pod
                    self._pace.sent(key)
                else:
                    self._forget_workflow(known)
            case RemovePod():
                await self._remove(known, call)

    def refused(self, key: str, call: Call | None, error: Exception | None) -> None:
        """Record that a call is refused, or no longer refused."""
        if call is None or error is None:
            self._doubted.discard(key)
            self._dependencies.refused(f"uid {key}", None)
            return
        known = self._known[key]
        pod = known.desired.full_name if known.desired else ""
        message = f"{type(error).__name__}: {error}"
        if isinstance(error, StillThere):
            if key not in self._doubted:
                self._doubted.add(key)
                _log.warning("keeping a pod that the API does not list any more", podUID=key, err=str(error))
            return
        self._dependencies.refused(f"uid {key}", Refusal("the API server", "PodNotSent", message, since="", pod=pod))

    async def _delete(self, known: Known, pod: ApiPod, number: int, at: float) -> None:
        reason, message = DELETED
        asked = DeletionRequested(API_SOURCE, reason, message, pod.grace, number)
        if await self._workflows.request_deletion(self._id_of(pod), asked):
            self._note_signalled(known, pod, at)
        elif known.signalled and known.signalled.deleted:
            # the pod has ended and finalizers keep its object, or it is about to be removed
            known.signalled, known.open = pod, None
        else:
            known.open = None
            await self._workflows.start(await self._start_of(pod, known), asked)
            self._note_signalled(known, pod, at)

    async def _remove(self, known: Known, call: RemovePod) -> None:
        pod, last = PodWorkflowId.parse(call.workflow_id), known.last
        if not await self._dependencies.confirms.is_gone(pod.namespace, pod.name, pod.uid):
            raise StillThere("the API did not confirm that the pod is gone; asking again")
        if known.desired:
            return  # listed again in the meantime
        reason, message = GONE
        asked = DeletionRequested(API_SOURCE, reason, message, call.grace, self._workflows.numbers.next())
        with known.deletion_is_requested():
            arrived = await self._workflows.request_deletion(call.workflow_id, asked)
        if arrived:
            known.signalled = last
        else:
            self._forget_workflow(known)

    def _tell_waits(self, pod: ApiPod) -> None:
        why = self._workflows.hardware.why_waits(pod.uid) or NOT_ADMITTED_YET
        refusal = Refusal("the API server", BEING_ADMITTED, why, since="", pod=pod.full_name, waits=True)
        self._dependencies.refused(f"uid {pod.uid}", refusal)

    def _note_signalled(self, known: Known, pod: ApiPod, at: float) -> None:
        known.signalled, known.signalled_at = pod, at
        known.open = OpenPod(self._id_of(pod), source=API_SOURCE)

    def _forget_workflow(self, known: Known) -> None:
        known.open = known.signalled = None
        known.deletions_requested = False

    def _want(self, uid: str, pod: ApiPod | None, last: ApiPod | None = None) -> None:
        known = self._known.setdefault(uid, Known())
        if pod is None or pod.deleted:
            self._admissions.cancel(uid)
        if pod is None:
            self._dependencies.resizes.removed(uid)
        else:
            pod = self._with_resources(pod, self._dependencies.resizes.listed(pod.pod))
        before, known.desired = known.desired, seen_again(pod, known.desired) if pod else None
        known.last = last
        _log_change(before, known.desired)
        self._calls.changed(uid)

    @staticmethod
    def _with_resources(pod: ApiPod, listed: Listed) -> ApiPod:
        if pod.pod is listed.pod and pod.pending_resize == listed.pending:
            return pod
        return replace(pod, pod=listed.pod, pending_resize=listed.pending)

    def _converge(self, uids: Iterable[str]) -> None:
        self._calls.go(uid for uid in uids if uid in self._known)
        for uid in [uid for uid in uids if uid in self._known and self._known[uid].settled]:
            if not self._calls.is_at(uid):
                del self._known[uid]

    def _id_of(self, pod: ApiPod) -> str:
        return str(PodWorkflowId(self._node, pod.namespace, pod.name, pod.uid))

    async def _start_of(self, pod: ApiPod, known: Known) -> PodStart:
        """Return a workflow's input; of a pod that began before, nobody knows with which hooks this node took it. Raises CallOutdated."""
        rejected = None
        if not (known.open or pod.ended or pod.deleted):
            rejected = await self._admissions.answer(
                pod.uid, self._dependencies.admit(pod.pod), partial(self._tell_waits, pod)
            )
        if rejected is None:
            self._dependencies.resizes.admitted(pod.pod)
        sight = FirstSight(
            ended=pod.ended,
            rejected=rejected,
            started_at=pod.started_at,
            deleted=pod.deleted,
            grace=pod.grace,
            conditions=dict(pod.conditions),
        )
        return PodStart(
            node=self._node,
            pod=marked(without_hooks(pod.pod) if pod.started_at else pod.pod, self._node),
            source=API_SOURCE,
            settings=self._settings,
            first_sight=sight,
        )


def _log_change(before: ApiPod | None, after: ApiPod | None) -> None:
    match before, after:
        case None, ApiPod():
            _log.info("SyncLoop ADD", source=API_SOURCE, pod=after.full_name, podUID=after.uid)
        case ApiPod(), None:
            _log.info("SyncLoop REMOVE", source=API_SOURCE, pod=before.full_name, podUID=before.uid)
        case ApiPod(), ApiPod() if after.deleted and not before.deleted:
            _log.info("SyncLoop DELETE", source=API_SOURCE, pod=after.full_name, podUID=after.uid)
        case ApiPod(), ApiPod() if lasting(before.pod) != lasting(after.pod):
            _log.info("SyncLoop UPDATE", source=API_SOURCE, pod=after.full_name, podUID=after.uid)
        case _:
            pass
