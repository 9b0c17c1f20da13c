"""Keeps the pod workflows of this node in sync with the pods that manifests list.

Fed with listings and, at the start and every minute, with the open workflows. What each pod name needs is computed from
these two each time (level-triggered), so nothing is lost while the poller or Temporal is down: listed pods are started
or signalled that they are listed again, the deletion of pods that are not listed any more is requested, and a replaced
pod is deleted before its successor starts. Nothing is deleted on incomplete information: not while the folder cannot be
read, not before the open workflows are known, and not a pod whose file exists but is invalid.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import partial
from typing import Final, Protocol

import structlog

from proto.refusals import BEING_ADMITTED, Refusal
from proto.temporal.names import PodWorkflowId
from proto.temporal.pod import NodeSettings, PodJson, PodStart
from proto.temporal.pod_inputs import FirstSight, Rejected
from proto.temporal.resources import ResizeVerdict
from proto.temporal.signals import DeletionRequested, PodListed
from worker.poller.calls.admissions import NOT_ADMITTED_YET, Admissions
from worker.poller.calls.open_workflows import OpenPod
from worker.poller.calls.pod_workflows import VISIBILITY_LAGS, PodWorkflows, marked
from worker.poller.calls.reconciler import Reconciler
from worker.poller.calls.signal_pace import SignalPace
from worker.poller.calls.temporal_calls import CallRefused
from worker.poller.manifests.manifest_folder import Listing
from worker.poller.manifests.manifest_pod_needs import Delete, PodName, Start, is_same
from worker.poller.manifests.merged_listings import ManifestListings
from worker.poller.manifests.static_pod import SOURCE, StaticPod
from worker.poller.resizes.resizes import Resizes
from workflows.decide.devices.requests import NOT_REGISTERED

_log: Final = structlog.get_logger(__name__)


class Admit(Protocol):
    """Decides whether the node admits a pod."""

    async def __call__(self, pod: PodJson, *, static: bool = False) -> Rejected | None:
        """Return why it is rejected; None admits it."""


class ManifestPods:
    """Makes the calls, one at a time for each pod name."""

    def __init__(
        self,
        workflows: PodWorkflows,
        node: str,
        settings: NodeSettings,
        refused: Callable[[str, Refusal | None], None],
        *,
        sources: Collection[str] = (SOURCE,),
    ) -> None:
        """Take the calls to Temporal, the input of every workflow, and a callback for starts that Temporal refuses.

        `sources` are those that will list.
        """
        self._workflows = workflows
        self._node = node
        self._settings = settings
        self._refused = refused
        self.admit: Admit | None = None
        """Returns why this node rejects a new pod; None admits every pod."""
        self.why_waits: Callable[[PodJson], str] = lambda _: ""
        """Returns what a new pod waits for; empty if it can begin."""
        self._waiting: dict[str, Refusal] = {}
        """By name: what pods wait for that cannot begin."""
        self.resizes: Resizes | None = None
        """Grants resizes; without it the pods' workflows do."""
        self._names: dict[str, PodName] = {}
        self._calls = Reconciler[Start | Delete](self)
        self._pace = SignalPace(lambda keys: self._calls.go(key for key in keys if key in self._names))
        self._listings = ManifestListings(dict.fromkeys(sources, Listing(readable=False)))
        self._admissions = Admissions()
        self._open_known = False

    def set_host_ips(self, addresses: tuple[str, ...]) -> None:
        """Set the node addresses that new pods are started with."""
        self._settings = replace(self._settings, host_ips=addresses)

    def set_listing(self, listing: Listing, source: str = SOURCE) -> None:
        """Take what a source of manifests lists now."""
        self._listings = listings = ManifestListings({**self._listings.by_source, source: listing})
        for name in sorted(listings.pods.keys() - self._names.keys()):
            self._names[name] = PodName()
        for name, known in self._names.items():
            desired = self._with_resources(listings.pods.get(name), known.desired)
            remade = desired.uid if desired and desired.source == source and name in listing.remade else ""
            known.remade = remade or known.remade
            if remade or known.desired is not desired:
                _log_change(name, known.desired, desired)
                self._replaced(known.desired, desired)
                known.desired = desired
                self._calls.changed(name)
        if self.resizes:
            self.resizes.settle()
        self._converge_all()

    def resized(self, uid: str) -> None:
        """Tell a pod that it is granted other resources, or why not."""
        for name, known in self._names.items():
            if known.desired and known.desired.uid == uid and known.desired.own_uid:
                known.desired = self._with_resources(self._listings.pods.get(name), known.desired)
                self._calls.changed(name)
        self._converge_all()

    def set_open(self, found: Iterable[OpenPod], asked_at: float) -> None:
        """Take the open workflows; `asked_at` is the loop's time before they were listed."""
        self._open_known = True
        by_name: dict[str, dict[str, OpenPod]] = {}
        for pod in found:
            with contextlib.suppress(ValueError):  # not started by us
                by_name.setdefault(f"{pod.id.namespace}/{pod.id.name}", {})[pod.id.uid] = pod
        for name in sorted(by_name.keys() - self._names.keys()):
            self._names[name] = PodName(desired=self._with_resources(self._listings.pods.get(name), None))
        for name, known in self._names.items():
            now_open = by_name.get(name, {})
            fresh = asked_at - known.listed_at < VISIBILITY_LAGS
            if known.listed and known.listed.uid not in now_open and not fresh:
                known.listed = None  # closed from outside: its pod is listed, so it is started again
            kept = {uid: pod for uid, pod in known.open.items() if fresh or uid in now_open}
            known.open = kept | {uid: _with_origin(pod, kept.get(uid)) for uid, pod in now_open.items()}
            known.deletions_requested &= known.open.keys()
            known.first_requests = {uid: call for uid, call in known.first_requests.items() if uid in known.open}
        self._converge_all()

    def start_anew(self, uids: Collection[str]) -> None:
        """Have listed pods that this node has ended deleted and started again."""
        for name, known in self._names.items():
            if known.desired and known.desired.uid in uids and known.desired.uid in known.open and not known.remade:
                known.remade, known.made_anew = known.desired.uid, True
                self._calls.changed(name)
        self._converge_all()

    def lost(self, workflow_id: str) -> None:
        """Record that this workflow does not exist: start it again if its pod is listed."""
        pod_id = PodWorkflowId.parse(workflow_id)
        known = self._names.get(f"{pod_id.namespace}/{pod_id.name}")
        if known:
            known.open.pop(pod_id.uid, None)
            if known.listed and known.listed.uid == pod_id.uid:
                known.listed = None
        self._converge_all()

    def tell_anew(self, workflow_ids: Iterable[str]) -> None:
        """Tell everything again to pods whose lead has changed."""
        for workflow_id in workflow_ids:
            pod_id = PodWorkflowId.parse(workflow_id)
            name = f"{pod_id.namespace}/{pod_id.name}"
            if known := self._names.get(name):
                known.tell_anew(pod_id.uid)
                self._calls.changed(name)
        self._converge_all()

    def may_list(self, uid: str, path: str = "", source: str = "") -> bool:
        """Report whether a manifest lists this pod, or one that cannot be read just now may."""
        return self.lists(uid) or not self._listings.is_unlisted(OpenPod("", path, source))

    def desired(self) -> list[StaticPod]:
        """Return the pods that manifests list."""
        return [known.desired for known in self._names.values() if known.desired]

    def present(self) -> dict[str, PodJson]:
        """Return the pods that manifests list, by uid, with the resources that they are granted."""
        return {pod.uid: pod.pod for pod in self.desired()}

    @property
    def complete(self) -> bool:
        """Whether everything that manifests list is known, and which pods are open."""
        return self._open_known and self._listings.complete

    @property
    def listed(self) -> bool:
        """Whether every source of manifests has listed its pods."""
        return all(one.readable for one in self._listings.by_source.values())

    @property
    def open_known(self) -> bool:
        """Whether it is known which pods are open."""
        return self._open_known

    def opened(self) -> list[tuple[str, str]]:
        """Return namespace/name and uid of the pods whose workflows are open, or were a moment ago."""
        return [(name, uid) for name, known in self._names.items() for uid in known.open]

    def lists(self, uid: str) -> bool:
        """Report whether a manifest lists this pod."""
        return any(known.desired and known.desired.uid == uid for known in self._names.values())

    def deletion_requested(self, workflow_id: str) -> bool:
        """Report whether we requested the deletion of this pod."""
        pod_id = PodWorkflowId.parse(workflow_id)
        known = self._names.get(f"{pod_id.namespace}/{pod_id.name}")
        return bool(known and pod_id.uid in known.deletions_requested)

    async def close(self) -> None:
        """Stop calling; what is still needed is computed again at the next start."""
        self._pace.close()
        await self._calls.close()

    def next_call(self, key: str) -> Start | Delete | None:
        """Return the next call that a name needs."""
        known = self._names[key]
        call = known.next_call(self._listings)
        if self._waits(key, call):
            return None
        if isinstance(call, Start) and known.edits(call.pod) and self._pace.holds_back(key, key):
            return None
        return None if isinstance(call, Delete) and not self._open_known else call

    def refused(self, key: str, call: Start | Delete | None, error: Exception | None) -> None:
        """Report that Temporal refuses a call, or no longer refuses it."""
        if call is None or error is None:
            self._refused(key, self._waiting.get(key))
            return
        path = str(call.pod.path) if isinstance(call, Start) else call.workflow_id
        message = str(error) if isinstance(error, CallRefused) else f"{type(error).__name__}: {error}"
        self._refused(key, Refusal(path, "PodNotSent", message, since="", pod=key))

    def look_again(self) -> None:
        """Ask again whether pods that wait can begin."""
        self._converge_all()

    def _waits(self, key: str, call: Start | Delete | None) -> bool:
        """Report whether a pod cannot begin yet; it is told beside the refused manifests."""
        pod = call.pod if isinstance(call, Start) else None
        why = self.why_waits(pod.pod) if pod and not self._names[key].open.get(pod.uid) else ""
        if pod and why:
            self._waiting[key] = Refusal(str(pod.path), NOT_REGISTERED, why, since="", pod=key, waits=True)
        elif self._waiting.pop(key, None) is None:
            return False
        self._refused(key, self._waiting.get(key))
        return bool(why)

    def _converge_all(self) -> None:
        for name in [name for name, known in self._names.items() if known.settled and not self._calls.is_at(name)]:
            self._waits(name, None)
            del self._names[name]
        self._calls.go(self._names)

    async def make(self, key: str, call: Start | Delete) -> None:
        """Make a call, and record its result."""
        known = self._names[key]
        number, leads = self._workflows.numbers.next(), known.leads
        match call:
            case Start(pod):
                start = self._start_of(pod)
                if why := await self._why_rejected(known, pod):
                    start = replace(start, first_sight=FirstSight(rejected=why))
                elif self.resizes and pod.own_uid:
                    self.resizes.admitted(pod.pod)
                workflow_id = str(PodWorkflowId(self._node, pod.namespace, pod.name, pod.uid))
                listed_at = asyncio.get_running_loop().time()
                content = start.pod if pod.own_uid else None  # otherwise an edit gives another UID
                decided = ResizeVerdict(pod.pending_resize) if content and self.resizes else None
                listed = PodListed(pod.source, number, content, in_place=True, resize=decided)
                await self._workflows.start(start, listed)
                if known.edits(pod):
                    self._pace.sent(key)
                known.listed, known.listed_at = pod if known.leads == leads else None, listed_at
                known.open[pod.uid] = OpenPod(workflow_id, str(pod.path), pod.source)
                known.deletions_requested.discard(pod.uid)
                known.first_requests.pop(pod.uid, None)
            case Delete(workflow_id, reason, message):
                uid = PodWorkflowId.parse(workflow_id).uid
                source = known.open[uid].source or SOURCE
                request = DeletionRequested(source, reason=reason, message=message, sequence=number)
                if known.listed and known.listed.uid == uid:
                    known.listed = None  # also if the call fails: it may have arrived
                known.deletions_requested.add(uid)  # its containers may end before the answer comes
                try:
                    arrived = await self._workflows.request_deletion(workflow_id, request)
                except BaseException:
                    known.deletions_requested.discard(uid)
                    raise
                known.remade, known.made_anew = "", False
                if not arrived:
                    known.open.pop(uid, None)
                    known.deletions_requested.discard(uid)
                    return
                known.first_requests.setdefault(uid, call)

    async def _why_rejected(self, known: PodName, pod: StaticPod) -> Rejected | None:
        """Return why a new pod is rejected; raises CallOutdated."""
        if self.admit is None or known.open.get(pod.uid):
            return None
        return await self._admissions.answer(pod.uid, self.admit(pod.pod, static=True), partial(self._tell_waits, pod))

    def _tell_waits(self, pod: StaticPod) -> None:
        why = self._workflows.hardware.why_waits(pod.uid) or NOT_ADMITTED_YET
        key = f"{pod.namespace}/{pod.name}"
        self._refused(key, Refusal(str(pod.path), BEING_ADMITTED, why, since="", pod=key, waits=True))

    def _with_resources(self, pod: StaticPod | None, before: StaticPod | None) -> StaticPod | None:
        """Return a listed pod with the resources that it is granted: `before` if nothing has changed, which is compared by identity."""
        if pod is None or not pod.own_uid or self.resizes is None:
            return pod  # an edit gives another UID
        listed = self.resizes.listed(pod.pod, static=True)
        if pod.pod is listed.pod and listed.pending is None:
            return pod
        found = replace(pod, pod=listed.pod, pending_resize=listed.pending)
        return before if before == found else found

    def _replaced(self, old: StaticPod | None, new: StaticPod | None) -> None:
        if old and (new is None or new.uid != old.uid):
            self._admissions.cancel(old.uid)
            if self.resizes:
                self.resizes.removed(old.uid)

    def _start_of(self, pod: StaticPod) -> PodStart:
        return PodStart(
            node=self._node,
            pod=marked(pod.pod, self._node),
            source=pod.source,
            path=str(pod.path),
            settings=self._settings,
        )


def _with_origin(pod: OpenPod, before: OpenPod | None) -> OpenPod:
    """Keep what was known of a pod's origin."""
    known = before or pod
    return OpenPod(pod.workflow_id, pod.path or known.path, pod.source or known.source)


def _log_change(name: str, old: StaticPod | None, new: StaticPod | None) -> None:
    match old, new:
        case None, StaticPod():
            _log.info("SyncLoop ADD", source=new.source, pod=name, podUID=new.uid, path=str(new.path))
        case StaticPod(), None:
            _log.info("SyncLoop REMOVE", source=old.source, pod=name, podUID=old.uid, path=str(old.path))
        case StaticPod(), StaticPod() if not is_same(old, new):
            _log.info("SyncLoop UPDATE", source=new.source, pod=name, podUID=new.uid, path=str(new.path))
        case _:
            pass
