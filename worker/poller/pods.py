"""Keeps the pod workflows of this node in step with what the manifests list.

Fed with listings by `run` and, at the start and every minute, with the workflows that are open. What each pod name still
needs is worked out anew from these two each time (level-triggered), so a poller that was away, or a Temporal that was,
loses nothing: pods listed are started (or told that they are listed again), pods no longer listed are asked to go, a
replaced pod is asked to go before its successor starts. Nothing is deleted on half knowledge: not while the folder can't be
read, not before the open workflows are known, and not a pod whose file is there but broken (design §4.3).
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import structlog

from proto.cri.ownership import NODE_ANNOTATION
from proto.refusals import Refusal
from proto.temporal.names import PodWorkflowId
from proto.temporal.pod import NodeSettings, PodJson, PodStart
from proto.temporal.signals import DeletionRequested, PodListed
from worker.poller.manifest_folder import Listing
from worker.poller.pod_workflows import CallRefused, OpenPod, PodWorkflows, TemporalAway
from worker.poller.static_pod import StaticPod
from workflows.decide.listing import lasting
from workflows.versions import CURRENT

SOURCE: Final = "file"
RETRY_FIRST: Final = timedelta(milliseconds=100)
RETRY_LONGEST: Final = timedelta(seconds=5)
RETRY_REFUSED: Final = timedelta(seconds=20)
VISIBILITY_LAGS: Final = timedelta(seconds=10)

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

    def next_call(self, listing: Listing) -> Start | Delete | None:
        """Say what to do next: what must go first, then what is wanted.

        An edit under the same UID is a listing: its workflow says what can be changed in place.
        """
        stays = self.wanted.uid if self.wanted else None
        for uid, pod in self.open.items():
            if uid != stays and uid not in self.asked_to_go and _is_free(pod, listing):
                return Delete(pod.workflow_id, *_why(pod, self.wanted, listing))
        if self.wanted and not (self.listed and _same(self.listed, self.wanted)):
            return Start(self.wanted)
        return None

    @property
    def settled(self) -> bool:
        """Nothing of this name is wanted or open."""
        return self.wanted is None and not self.open


class PodLister:
    """Makes the calls, one at a time for each pod name."""

    def __init__(
        self, workflows: PodWorkflows, node: str, settings: NodeSettings, refused: Callable[[str, Refusal | None], None]
    ) -> None:
        """Take the way to Temporal, what every pod starts with, and who is told of starts that Temporal refuses."""
        self._workflows = workflows
        self._node = node
        self._settings = settings
        self._refused = refused
        self._names: dict[str, PodName] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._changed: dict[str, asyncio.Event] = {}
        self._listing = Listing(readable=False)
        self._open_known = False
        self._sequence = time.time_ns() // 1_000_000  # a restarted poller counts on from here

    def set_listing(self, listing: Listing) -> None:
        """Take what the manifests list now."""
        self._listing = listing
        for name in sorted(listing.pods.keys() - self._names.keys()):
            self._names[name] = PodName()
        for name, known in self._names.items():
            wanted = listing.pods.get(name)
            if known.wanted is not wanted:
                _log_change(name, known.wanted, wanted)
                known.wanted = wanted
                if event := self._changed.get(name):
                    event.set()
        self._converge_all()

    def set_open(self, found: Iterable[OpenPod], asked_at: float) -> None:
        """Take which workflows are open; `asked_at` is the loop's time before they were listed."""
        self._open_known = True
        by_name: dict[str, dict[str, OpenPod]] = {}
        for pod in found:
            with contextlib.suppress(ValueError):  # not started by us
                by_name.setdefault(f"{pod.id.namespace}/{pod.id.name}", {})[pod.id.uid] = pod
        for name in sorted(by_name.keys() - self._names.keys()):
            self._names[name] = PodName(wanted=self._listing.pods.get(name))
        for name, known in self._names.items():
            now_open = by_name.get(name, {})
            fresh = asked_at - known.listed_at < VISIBILITY_LAGS.total_seconds()
            if known.listed and known.listed.uid not in now_open and not fresh:
                known.listed = None  # somebody ended it: it is listed, so it starts again
            kept = {uid: pod for uid, pod in known.open.items() if fresh or uid in now_open}
            known.open = {uid: OpenPod(p.workflow_id, p.path or _path(kept.get(uid))) for uid, p in now_open.items()}
            known.open = kept | known.open
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

    def may_want(self, uid: str, path: str = "") -> bool:
        """Say whether a manifest lists this pod, or one that can't be read just now may."""
        if any(known.wanted and known.wanted.uid == uid for known in self._names.values()):
            return True
        return not _is_free(OpenPod("", path), self._listing)

    def is_going(self, workflow_id: str) -> bool:
        """Say whether we asked this pod to go."""
        pod_id = PodWorkflowId.parse(workflow_id)
        known = self._names.get(f"{pod_id.namespace}/{pod_id.name}")
        return bool(known and pod_id.uid in known.asked_to_go)

    async def close(self) -> None:
        """Stop calling; what was not said is worked out again at the next start."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _converge_all(self) -> None:
        for name in [name for name, known in self._names.items() if known.settled and name not in self._tasks]:
            del self._names[name]
        for name in self._names:
            if name not in self._tasks and self._next_call(name):
                self._changed[name] = asyncio.Event()
                self._tasks[name] = asyncio.create_task(self._converge(name), name=f"pod {name}")

    def _next_call(self, name: str) -> Start | Delete | None:
        call = self._names[name].next_call(self._listing)
        return None if isinstance(call, Delete) and not self._open_known else call

    async def _converge(self, name: str) -> None:
        """Make calls until this name needs none."""
        known, changed = self._names[name], self._changed[name]
        wait = RETRY_FIRST
        try:
            while call := self._next_call(name):
                changed.clear()
                try:
                    await self._make(known, call)
                    self._refused(name, None)
                    wait = RETRY_FIRST
                    continue
                except TemporalAway:
                    pause, wait = wait, min(wait * 2, RETRY_LONGEST)
                except Exception as error:  # noqa: BLE001 - a pod that can't be sent must not stop the others
                    pause = RETRY_REFUSED
                    self._note_refused(name, call, error)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), pause.total_seconds())
        finally:
            del self._tasks[name], self._changed[name]

    async def _make(self, known: PodName, call: Start | Delete) -> None:
        self._sequence += 1
        match call:
            case Start(pod):
                start = self._start_of(pod)
                workflow_id = str(PodWorkflowId(self._node, pod.namespace, pod.name, pod.uid))
                listed_at = asyncio.get_running_loop().time()
                content = start.pod if pod.own_uid else None  # else an edit has another UID
                listed = PodListed(SOURCE, self._sequence, content, in_place=True)
                await self._workflows.start(start, listed)
                known.listed, known.listed_at = pod, listed_at
                known.open[pod.uid] = OpenPod(workflow_id, str(pod.path))
                known.asked_to_go.discard(pod.uid)
            case Delete(workflow_id, reason, message):
                uid = PodWorkflowId.parse(workflow_id).uid
                request = DeletionRequested(SOURCE, reason=reason, message=message, sequence=self._sequence)
                if known.listed and known.listed.uid == uid:
                    known.listed = None  # also when the call fails: it may have arrived
                if await self._workflows.request_deletion(workflow_id, request):
                    known.asked_to_go.add(uid)
                else:
                    known.open.pop(uid, None)

    def _start_of(self, pod: StaticPod) -> PodStart:
        metadata = pod.pod["metadata"]
        annotations = {**(metadata.get("annotations") or {}), NODE_ANNOTATION: self._node}
        marked: PodJson = {**pod.pod, "metadata": {**metadata, "annotations": annotations}}
        return PodStart(
            node=self._node,
            pod=marked,
            source=SOURCE,
            path=str(pod.path),
            behaviour=CURRENT,
            settings=self._settings,
        )

    def _note_refused(self, name: str, call: Start | Delete, error: Exception) -> None:
        path = str(call.pod.path) if isinstance(call, Start) else call.workflow_id
        message = str(error) if isinstance(error, CallRefused) else f"{type(error).__name__}: {error}"
        self._refused(name, Refusal(path, "PodNotSent", message, since="", pod=name))


def _is_free(pod: OpenPod, listing: Listing) -> bool:
    """Say whether it is certain that no manifest stands for this pod."""
    if not listing.readable or pod.path in listing.undecided:
        return False
    return bool(pod.path) or not listing.undecided


def _why(old: OpenPod, new: StaticPod | None, listing: Listing) -> tuple[str, str]:
    """Say in one word and in words why a pod has to go."""
    manifest = f"manifest {old.path}" if old.path else "its manifest"
    if new and str(new.path) in {old.path, ""}:
        return "ManifestReplaced", f"{manifest} was changed"
    if new:
        return "ManifestReplaced", f"manifest {new.path} took the place of {manifest}"
    if now := next((name for name, pod in listing.pods.items() if old.path and str(pod.path) == old.path), None):
        return "ManifestReplaced", f"{manifest} now describes {now}"
    return "ManifestRemoved", f"{manifest} is no longer there"


def _same(one: StaticPod, other: StaticPod) -> bool:
    return one is other or (one.uid == other.uid and lasting(one.pod) == lasting(other.pod))


def _path(pod: OpenPod | None) -> str:
    return pod.path if pod else ""


def _log_change(name: str, old: StaticPod | None, new: StaticPod | None) -> None:
    match old, new:
        case None, StaticPod():
            _log.info("SyncLoop ADD", source=SOURCE, pod=name, podUID=new.uid, path=str(new.path))
        case StaticPod(), None:
            _log.info("SyncLoop REMOVE", source=SOURCE, pod=name, podUID=old.uid, path=str(old.path))
        case StaticPod(), StaticPod() if not _same(old, new):
            _log.info("SyncLoop UPDATE", source=SOURCE, pod=name, podUID=new.uid, path=str(new.path))
        case _:
            pass
