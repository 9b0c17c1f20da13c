"""Keeps the pod workflows of this node in step with the pods that the API binds to it.

Fed with a complete list and single changes by `api_source`, and with the open workflows by `run`. A pod that is listed is started
or told what has changed of it, one with a deletionTimestamp is asked to go with that grace, one that has ended in the API
is never started again. A pod that the API lists no more is killed, as by the kubelet (HandlePodRemoves), but only after the API
has said once more, about this pod alone, that it is not there, and that it knows our Node object: a server with an empty
or another etcd must not empty the node.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final, Protocol

import structlog

from proto.refusals import Refusal
from proto.temporal.names import API_SOURCE, PodWorkflowId
from proto.temporal.pod import NodeSettings, PodJson, PodStart
from proto.temporal.pod_inputs import FirstSight, Rejected
from proto.temporal.signals import DeletionRequested, PodListed, StatusGiven
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
from worker.poller.convergence import Convergence
from worker.poller.pod_workflows import VISIBILITY_LAGS, OpenPod, PodWorkflows, marked
from workflows.decide.record.listing import lasting
from workflows.decide.versions import CURRENT

DELETED: Final = ("PodDeleted", "its object was deleted in the API")
GONE: Final = ("PodRemoved", "the API has no object of it any more")

_log: Final = structlog.get_logger(__name__)


class StillThere(Exception):
    """The API does not confirm that a pod is gone; looked at again later."""


class Confirms(Protocol):
    """Who can say that a pod is really gone from the API."""

    async def is_gone(self, namespace: str, name: str, uid: str) -> bool:
        """Say whether the API has no such pod and does know our Node; raises ApiAway and ApiRefused."""


@dataclass(frozen=True, slots=True)
class AroundApiPods:
    """Whom the lister asks and tells."""

    confirms: Confirms
    admit: Callable[[PodJson], Awaitable[Rejected | None]]
    """Whether this node takes a new pod."""
    shown_phase: Callable[[str], str]
    """Which phase its own workflow shows of a uid; empty where nothing of it is on this node."""
    refused: Callable[[str, Refusal | None], None]
    """Told of calls that Temporal refuses, by pod."""


class ApiPods:
    """Makes the calls, one at a time for each pod."""

    def __init__(self, workflows: PodWorkflows, node: str, settings: NodeSettings, around: AroundApiPods) -> None:
        """Take the way to Temporal, what every pod starts with, and who is asked and told."""
        self._workflows, self._node, self._settings, self._around = workflows, node, settings, around
        self._known: dict[str, Known] = {}
        self._calls = Convergence[Call](self)
        self._open_known = False
        self._listed = False
        self._doubted: set[str] = set()
        """Pods of which it was told that they are kept though they are not listed."""

    def set_host_ips(self, addresses: tuple[str, ...]) -> None:
        """Take which addresses new pods are told of as the node's."""
        self._settings = replace(self._settings, host_ips=addresses)

    @property
    def pods(self) -> Iterable[ApiPod]:
        """All that the API binds to this node."""
        return (one.wanted for one in self._known.values() if one.wanted)

    def knows(self, uid: str) -> bool:
        """Say whether the API has told of this pod since the poller started."""
        return uid in self._known

    def set_listed(self, pods: Iterable[ApiPod]) -> None:
        """Take the complete list; what is new is started in the order in which it was created, as it is admitted."""
        self._listed = True
        by_uid = {pod.uid: pod for pod in pods}
        for uid in [uid for uid, known in self._known.items() if known.wanted and uid not in by_uid]:
            self._want(uid, None, self._known[uid].wanted)
        for uid, pod in sorted(by_uid.items(), key=lambda item: item[1].pod["metadata"].get("creationTimestamp") or ""):
            self._want(uid, pod)
        self._converge(list(self._known))

    def set_changed(self, pod: ApiPod, *, removed: bool = False) -> None:
        """Take one change."""
        self._want(pod.uid, *((None, pod) if removed else (pod, None)))
        self._converge([pod.uid])

    def set_open(self, found: Iterable[OpenPod], asked_at: float) -> None:
        """Take which workflows are open; `asked_at` is the loop's time before they were listed."""
        self._open_known = True
        opened = {pod.id.uid: pod for pod in found}
        for uid in opened.keys() - self._known.keys():
            self._known[uid] = Known()
        for uid, known in self._known.items():
            fresh = asked_at - known.told_at < VISIBILITY_LAGS
            if uid in opened:
                known.open = opened[uid]
            elif not fresh and known.asked_to_go and known.wanted and known.wanted.deleted and known.wanted.held:
                known.open = None
            elif not fresh:
                self._forget_workflow(known)
        self._converge(list(self._known))

    def lost(self, uid: str) -> None:
        """Take that there is no such workflow: its pod starts again where it is wanted."""
        if known := self._known.get(uid):
            self._forget_workflow(known)
            known.tried = False
            self._converge([uid])

    def may_want(self, uid: str) -> bool:
        """Say whether the API lists this pod, or may: it has not told all yet."""
        known = self._known.get(uid)
        return not self._listed or bool(known and (known.wanted or known.open))

    def is_going(self, uid: str) -> bool:
        """Say whether we asked this pod to go."""
        known = self._known.get(uid)
        return bool(known and known.asked_to_go)

    async def close(self) -> None:
        """Stop calling."""
        await self._calls.close()

    def next_call(self, key: str) -> Call | None:
        """Say what a pod needs next."""
        known = self._known[key]
        pod = known.wanted or known.last
        ended = bool(pod and pod.ended)
        if (known.wanted is None and not self._listed) or (ended and not self._open_known):
            return None
        shown_phase = self._around.shown_phase(key) if ended else ""  # looked up only for whom it matters
        return known.next_call(open_known=self._open_known, shown_phase=shown_phase)

    async def make(self, key: str, call: Call) -> None:
        """Make a call, and write down what it came to."""
        known = self._known[key]
        number = self._workflows.numbers.next()
        at = asyncio.get_running_loop().time()
        match call:
            case StartPod(pod):
                start = await self._start_of(pod, known)
                may_be_open = known.told or known.open or known.tried or not self._open_known
                content = start.pod if may_be_open else None
                known.tried = True
                await self._workflows.start(start, PodListed(API_SOURCE, number, content, in_place=True))
                self._note_told(known, pod if content is None else listed(pod, known.told), at)
            case DeletePod(pod):
                reason, message = DELETED
                asked = DeletionRequested(API_SOURCE, reason, message, pod.grace, number)
                if await self._workflows.request_deletion(self._id_of(pod), asked):
                    self._note_told(known, pod, at)
                elif known.told and known.told.deleted:
                    # everything of it is gone, and finalizers keep its object, or it is on its way out
                    known.told, known.open = pod, None
                else:
                    known.open = None
                    await self._workflows.start(await self._start_of(pod, known), asked)
                    self._note_told(known, pod, at)
                known.asked_to_go = True
            case TellStatus(pod):
                given = StatusGiven(API_SOURCE, number, dict(pod.conditions), pod.ended)
                if await self._workflows.status_given(self._id_of(pod), given):
                    known.told = pod
                else:
                    self._forget_workflow(known)
            case RemovePod():
                await self._remove(known, call)

    def refused(self, key: str, call: Call | None, error: Exception | None) -> None:
        """Tell of a call that is refused, and that it is no more."""
        if call is None or error is None:
            self._doubted.discard(key)
            self._around.refused(f"uid {key}", None)
            return
        known = self._known[key]
        pod = known.wanted.full_name if known.wanted else ""
        message = f"{type(error).__name__}: {error}"
        if isinstance(error, StillThere):
            if key not in self._doubted:
                self._doubted.add(key)
                _log.warning("a pod that the API lists no more is kept", podUID=key, err=str(error))
            return
        self._around.refused(f"uid {key}", Refusal("the API server", "PodNotSent", message, since="", pod=pod))

    async def _remove(self, known: Known, call: RemovePod) -> None:
        pod, last = PodWorkflowId.parse(call.workflow_id), known.last
        if not await self._around.confirms.is_gone(pod.namespace, pod.name, pod.uid):
            raise StillThere("the API did not confirm that it is gone; it is asked again")
        if known.wanted:
            return  # listed again meanwhile
        reason, message = GONE
        asked = DeletionRequested(API_SOURCE, reason, message, call.grace, self._workflows.numbers.next())
        if await self._workflows.request_deletion(call.workflow_id, asked):
            known.asked_to_go, known.told = True, last
        else:
            self._forget_workflow(known)

    def _note_told(self, known: Known, pod: ApiPod, at: float) -> None:
        known.told, known.told_at = pod, at
        known.open = OpenPod(self._id_of(pod), source=API_SOURCE)

    def _forget_workflow(self, known: Known) -> None:
        known.open = known.told = None
        known.asked_to_go = False

    def _want(self, uid: str, pod: ApiPod | None, last: ApiPod | None = None) -> None:
        known = self._known.setdefault(uid, Known())
        before, known.wanted = known.wanted, seen_again(pod, known.wanted) if pod else None
        known.last = last
        _log_change(before, known.wanted)
        self._calls.changed(uid)

    def _converge(self, uids: Iterable[str]) -> None:
        self._calls.go(uid for uid in uids if uid in self._known)
        for uid in [uid for uid in uids if uid in self._known and self._known[uid].settled]:
            if not self._calls.is_at(uid):
                del self._known[uid]

    def _id_of(self, pod: ApiPod) -> str:
        return str(PodWorkflowId(self._node, pod.namespace, pod.name, pod.uid))

    async def _start_of(self, pod: ApiPod, known: Known) -> PodStart:
        sight = FirstSight(
            ended=pod.ended,
            rejected=None if known.open or pod.ended or pod.deleted else await self._around.admit(pod.pod),
            started_at=pod.started_at,
            deleted=pod.deleted,
            grace=pod.grace,
            conditions=dict(pod.conditions),
        )
        return PodStart(
            node=self._node,
            pod=marked(pod.pod, self._node),
            source=API_SOURCE,
            behaviour=CURRENT,
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
