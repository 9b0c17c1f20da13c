"""Keeps the pod workflows of this node in step with what the manifests list.

Fed with listings by `run` and, at the start and every minute, with the workflows that are open. What each pod name still
needs is worked out anew from these two each time (level-triggered), so a poller that was away, or a Temporal that was,
loses nothing: pods listed are started (or told that they are listed again), pods no longer listed are asked to go, a
replaced pod is asked to go before its successor starts. Nothing is deleted on half knowledge: not while the folder can't be
read, not before the open workflows are known, and not a pod whose file is there but broken (design §4.3).
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import structlog

from proto.refusals import Refusal
from proto.temporal.names import PodWorkflowId
from proto.temporal.pod import NodeSettings, PodJson, PodStart
from proto.temporal.pod_inputs import FirstSight, Rejected
from proto.temporal.signals import DeletionRequested, PodListed
from worker.poller.convergence import Convergence
from worker.poller.manifests.manifest_folder import Listing
from worker.poller.manifests.manifest_listings import ManifestListings
from worker.poller.manifests.static_pod import SOURCE, URL_SOURCE, StaticPod
from worker.poller.pod_workflows import VISIBILITY_LAGS, CallRefused, OpenPod, PodWorkflows, marked
from workflows.decide.record.listing import lasting
from workflows.decide.versions import CURRENT

_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Start:
    """List this pod to its workflow, starting it where there is none."""

    pod: StaticPod


@dataclass(frozen=True, slots=True)
class Delete:
    """Ask this workflow to take its pod down."""

    workflow_id: str
    reason: str
    message: str


@dataclass(slots=True)
class PodName:
    """What is wanted and known of one pod name (namespace/name)."""

    wanted: StaticPod | None = None
    listed: StaticPod | None = None
    """What its workflow was last told."""
    listed_at: float = 0.0
    open: dict[str, OpenPod] = field(default_factory=dict)
    """By UID: workflows that are, or were a moment ago, open."""
    asked_to_go: set[str] = field(default_factory=set)

    def next_call(self, listings: ManifestListings) -> Start | Delete | None:
        """Say what to do next: what must go first, then what is wanted.

        An edit under the same UID is a listing: its workflow says what can be changed in place.
        """
        stays = self.wanted.uid if self.wanted else None
        for uid, pod in self.open.items():
            if uid != stays and uid not in self.asked_to_go and listings.is_free(pod):
                return Delete(pod.workflow_id, *_why(pod, self.wanted, listings))
        if self.wanted and not (self.listed and _same(self.listed, self.wanted)):
            return Start(self.wanted)
        return None

    @property
    def settled(self) -> bool:
        """Nothing of this name is wanted or open."""
        return self.wanted is None and not self.open


class Admit(Protocol):
    """Who says whether the node takes a pod."""

    async def __call__(self, pod: PodJson, *, static: bool = False) -> Rejected | None:
        """Say why not; None takes it."""


class PodLister:
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
        """Take the way to Temporal, what every pod starts with, who is told of starts that Temporal refuses.

        `sources` are those that will list.
        """
        self._workflows = workflows
        self._node = node
        self._settings = settings
        self._refused = refused
        self.admit: Admit | None = None
        """Says of a new pod why this node does not take it, if so; None: every one is taken, as by a standalone node."""
        self._names: dict[str, PodName] = {}
        self._calls = Convergence[Start | Delete](self)
        self._listings = ManifestListings(dict.fromkeys(sources, Listing(readable=False)))
        self._open_known = False

    def set_host_ips(self, addresses: tuple[str, ...]) -> None:
        """Take which addresses new pods are told of as the node's."""
        self._settings = replace(self._settings, host_ips=addresses)

    def set_listing(self, listing: Listing, source: str = SOURCE) -> None:
        """Take what a source of manifests lists now."""
        self._listings = listings = ManifestListings({**self._listings.by_source, source: listing})
        for name in sorted(listings.pods.keys() - self._names.keys()):
            self._names[name] = PodName()
        for name, known in self._names.items():
            wanted = listings.pods.get(name)
            if known.wanted is not wanted:
                _log_change(name, known.wanted, wanted)
                known.wanted = wanted
                self._calls.changed(name)
        self._converge_all()

    def set_open(self, found: Iterable[OpenPod], asked_at: float) -> None:
        """Take which workflows are open; `asked_at` is the loop's time before they were listed."""
        self._open_known = True
        by_name: dict[str, dict[str, OpenPod]] = {}
        for pod in found:
            with contextlib.suppress(ValueError):  # not started by us
                by_name.setdefault(f"{pod.id.namespace}/{pod.id.name}", {})[pod.id.uid] = pod
        for name in sorted(by_name.keys() - self._names.keys()):
            self._names[name] = PodName(wanted=self._listings.pods.get(name))
        for name, known in self._names.items():
            now_open = by_name.get(name, {})
            fresh = asked_at - known.listed_at < VISIBILITY_LAGS
            if known.listed and known.listed.uid not in now_open and not fresh:
                known.listed = None  # somebody ended it: it is listed, so it starts again
            kept = {uid: pod for uid, pod in known.open.items() if fresh or uid in now_open}
            known.open = kept | {uid: _with_origin(pod, kept.get(uid)) for uid, pod in now_open.items()}
            known.asked_to_go &= known.open.keys()
        self._converge_all()

    def lost(self, workflow_id: str) -> None:
        """Take that this workflow does not exist: start it again where its pod is wanted."""
        pod_id = PodWorkflowId.parse(workflow_id)
        known = self._names.get(f"{pod_id.namespace}/{pod_id.name}")
        if known:
            known.open.pop(pod_id.uid, None)
            if known.listed and known.listed.uid == pod_id.uid:
                known.listed = None
        self._converge_all()

    def may_want(self, uid: str, path: str = "", source: str = "") -> bool:
        """Say whether a manifest lists this pod, or one that can't be read just now may."""
        return self.wants(uid) or not self._listings.is_free(OpenPod("", path, source))

    def wanted(self) -> list[StaticPod]:
        """Give the pods that manifests list."""
        return [known.wanted for known in self._names.values() if known.wanted]

    @property
    def complete(self) -> bool:
        """Say whether all that manifests list is known, and which pods are open."""
        return self._open_known and self._listings.complete

    def opened(self) -> list[tuple[str, str]]:
        """Name the pods whose workflows are, or were a moment ago, open: namespace/name and uid."""
        return [(name, uid) for name, known in self._names.items() for uid in known.open]

    def wants(self, uid: str) -> bool:
        """Say whether a manifest lists this pod."""
        return any(known.wanted and known.wanted.uid == uid for known in self._names.values())

    def is_going(self, workflow_id: str) -> bool:
        """Say whether we asked this pod to go."""
        pod_id = PodWorkflowId.parse(workflow_id)
        known = self._names.get(f"{pod_id.namespace}/{pod_id.name}")
        return bool(known and pod_id.uid in known.asked_to_go)

    async def close(self) -> None:
        """Stop calling; what was not said is worked out again at the next start."""
        await self._calls.close()

    def next_call(self, key: str) -> Start | Delete | None:
        """Say what a name needs next."""
        call = self._names[key].next_call(self._listings)
        return None if isinstance(call, Delete) and not self._open_known else call

    def refused(self, key: str, call: Start | Delete | None, error: Exception | None) -> None:
        """Tell of a call that Temporal refuses, and that it does no more."""
        if call is None or error is None:
            self._refused(key, None)
            return
        path = str(call.pod.path) if isinstance(call, Start) else call.workflow_id
        message = str(error) if isinstance(error, CallRefused) else f"{type(error).__name__}: {error}"
        self._refused(key, Refusal(path, "PodNotSent", message, since="", pod=key))

    def _converge_all(self) -> None:
        for name in [name for name, known in self._names.items() if known.settled and not self._calls.is_at(name)]:
            del self._names[name]
        self._calls.go(self._names)

    async def make(self, key: str, call: Start | Delete) -> None:
        """Make a call, and write down what it came to."""
        known = self._names[key]
        number = self._workflows.numbers.next()
        match call:
            case Start(pod):
                start = self._start_of(pod)
                if self.admit and not known.open.get(pod.uid) and (why := await self.admit(pod.pod, static=True)):
                    start = replace(start, first_sight=FirstSight(rejected=why))
                workflow_id = str(PodWorkflowId(self._node, pod.namespace, pod.name, pod.uid))
                listed_at = asyncio.get_running_loop().time()
                content = start.pod if pod.own_uid else None  # else an edit has another UID
                listed = PodListed(pod.source, number, content, in_place=True)
                await self._workflows.start(start, listed)
                known.listed, known.listed_at = pod, listed_at
                known.open[pod.uid] = OpenPod(workflow_id, str(pod.path), pod.source)
                known.asked_to_go.discard(pod.uid)
            case Delete(workflow_id, reason, message):
                uid = PodWorkflowId.parse(workflow_id).uid
                source = known.open[uid].source or SOURCE
                request = DeletionRequested(source, reason=reason, message=message, sequence=number)
                if known.listed and known.listed.uid == uid:
                    known.listed = None  # also when the call fails: it may have arrived
                if await self._workflows.request_deletion(workflow_id, request):
                    known.asked_to_go.add(uid)
                else:
                    known.open.pop(uid, None)

    def _start_of(self, pod: StaticPod) -> PodStart:
        return PodStart(
            node=self._node,
            pod=marked(pod.pod, self._node),
            source=pod.source,
            path=str(pod.path),
            behaviour=CURRENT,
            settings=self._settings,
        )


def _why(old: OpenPod, new: StaticPod | None, listings: ManifestListings) -> tuple[str, str]:
    """Say in one word and in words why a pod has to go."""
    if old.source == URL_SOURCE:
        return (
            ("ManifestReplaced", f"{old.path} gives another one")
            if new
            else ("ManifestRemoved", f"{old.path} no longer lists it")
        )
    manifest = f"manifest {old.path}" if old.path else "its manifest"
    if new and str(new.path) in {old.path, ""}:
        return "ManifestReplaced", f"{manifest} was changed"
    if new:
        return "ManifestReplaced", f"manifest {new.path} took the place of {manifest}"
    if now := next(
        (name for name, pod in listings.of(SOURCE).pods.items() if old.path and str(pod.path) == old.path), None
    ):
        return "ManifestReplaced", f"{manifest} now describes {now}"
    return "ManifestRemoved", f"{manifest} is no longer there"


def _same(one: StaticPod, other: StaticPod) -> bool:
    return one is other or (one.uid == other.uid and lasting(one.pod) == lasting(other.pod))


def _with_origin(pod: OpenPod, before: OpenPod | None) -> OpenPod:
    """Keep what was known of where a pod came from."""
    known = before or pod
    return OpenPod(pod.workflow_id, pod.path or known.path, pod.source or known.source)


def _log_change(name: str, old: StaticPod | None, new: StaticPod | None) -> None:
    match old, new:
        case None, StaticPod():
            _log.info("SyncLoop ADD", source=new.source, pod=name, podUID=new.uid, path=str(new.path))
        case StaticPod(), None:
            _log.info("SyncLoop REMOVE", source=old.source, pod=name, podUID=old.uid, path=str(old.path))
        case StaticPod(), StaticPod() if not _same(old, new):
            _log.info("SyncLoop UPDATE", source=new.source, pod=name, podUID=new.uid, path=str(new.path))
        case _:
            pass
