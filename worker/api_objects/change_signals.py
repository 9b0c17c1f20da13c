"""Signals pods when an object they mount or wait for has another version.

Run by `cluster_objects`. Level-triggered, like `worker/poller/object_watch.py` for a folder: the watched objects are compared with the
workflows' snapshots after each change, after a snapshot that mounts something else, and once a minute. So neither a lost event
nor a restart matters. A pod whose objects change for ever is signalled at growing intervals, so that its history stays small.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import structlog
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from activities.execution.growing_intervals import RecentRecordsByName
from activities.execution.one_by_one import log_bad_item, one_by_one
from activities.objects.objects import ObjectKind, StoredObject
from activities.objects.trust_bundles import TrustBundleRefused
from proto.kubernetes.contents.projections import trust_bundle_key
from proto.pod_snapshot import PodSnapshot
from proto.temporal.mounted import IMMUTABLE
from proto.temporal.names import OBJECTS_CHANGED
from proto.temporal.signals import ObjectsChanged
from worker.api_objects.trust_anchors import anchors
from worker.api_objects.trust_bundles import ApiTrustBundles
from worker.api_objects.watched_objects import WATCHED, Key, WatchedObjects
from worker.objects.object_hints import Hint, LastNotified, Versions, object_hints
from worker.temporal.call_budget import CallBudget
from worker.temporal.signal_numbers import SignalNumbers

SOURCE: Final = "objects"
SETTLE: Final = 0.05
"""Seconds to wait after a change: related changes come together, and up to a hundred pods are compared once."""
EVERY: Final = 60.0
RETRY: Final = 2.0
"""Seconds until a failed signal is sent again."""
_CALL_LIMIT: Final = 10.0

_log: Final = structlog.get_logger(__name__)
SendSignal = Callable[[str, ObjectsChanged], Awaitable[None]]
"""Signals the workflow with that id; raises RPCError and RuntimeError."""


class ObjectChangeSignals:
    """The loop that compares and signals."""

    def __init__(
        self,
        watched: WatchedObjects,
        bundles: ApiTrustBundles,
        pods: Callable[[], Iterable[PodSnapshot]],
        send_signal: SendSignal,
        *,
        numbers: SignalNumbers,
    ) -> None:
        self._numbers = numbers
        self._watched, self._bundles, self._pods, self._send_signal = watched, bundles, pods, send_signal
        self._last_notified: LastNotified = {}
        self._failing = False
        self._sent = RecentRecordsByName()

    async def run(self, changed: asyncio.Event) -> None:
        """Compare at once, after each change and once a minute, until cancelled."""
        while True:
            changed.clear()
            all_sent = await self.compare()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), EVERY if all_sent else RETRY)
            await asyncio.sleep(SETTLE)

    async def compare(self) -> bool:
        """Compare all objects with all pods and signal those concerned; False if a signal failed."""
        pods = list(one_by_one("changed objects", self._pods(), _wanted, lambda pod: pod.uid))
        await self._watched.follow(frozenset(key for _, wanted in pods for key in wanted))
        read = self._watched.read()
        shown_anchors = self._trust_anchors([pod for pod, _ in pods])
        versions = {_named(key): version for key, (version, _) in read.items()} | shown_anchors
        behind = [replace(pod, objects=shown) for pod, _ in pods if (shown := _outdated(pod, versions))]
        answered = {_named(key): last for key, (_, last) in read.items()}
        hints, self._last_notified = object_hints(behind, versions, self._last_notified, answered)
        return all(await asyncio.gather(*map(self._signal, hints)))

    def _trust_anchors(self, pods: Iterable[PodSnapshot]) -> dict[tuple[str, str], str]:
        """Return the versions of the trust bundles that pods mount; empty before one was requested."""
        if (bundles := self._bundles.known()) is None:
            return {}
        found: dict[tuple[str, str], str] = {}
        for pod in pods:
            try:
                found |= _anchors_of(pod, bundles)
            except Exception as error:  # noqa: BLE001 - other pods must not be affected
                log_bad_item("changed trust bundles", pod.uid, error)
        return found

    async def _signal(self, hint: Hint) -> bool:
        now, sent = time.time(), self._sent.of(hint.workflow_id)
        if sent.due_at(now) > now:
            return True  # compared again within a minute
        signal = ObjectsChanged(SOURCE, hint.versions, self._numbers.next())
        try:
            await self._send_signal(hint.workflow_id, signal)
        except Exception as error:  # noqa: BLE001 - Temporal is away, or a defect: other pods must not be affected
            if not self._failing:  # told once, not at every retry
                _log.warning(
                    "a pod could not be signalled about a changed object", workflow=hint.workflow_id, err=str(error)
                )
            self._failing = True
            return False
        self._failing = False
        sent.add(now)
        self._last_notified |= {(hint.workflow_id, name): version for name, version in hint.versions.items()}
        return True


def signal_sender(client: Client, budget: CallBudget) -> SendSignal:
    """Return a function that signals workflows; one that has ended is ignored. `budget` is that of the process's calls."""

    async def send(workflow_id: str, signal: ObjectsChanged) -> None:
        try:
            handle = client.get_workflow_handle(workflow_id)
            async with budget.call(), asyncio.timeout(_CALL_LIMIT):
                await handle.signal(OBJECTS_CHANGED, signal)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise

    return send


def trust_sources(pod: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the clusterTrustBundle projections of a pod."""
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        for projection in (volume.get("projected") or {}).get("sources") or ():
            if source := projection.get("clusterTrustBundle"):
                yield source


def _wanted(pod: PodSnapshot) -> list[Key]:
    """Return the objects whose changes a pod must learn of; immutable ones do not change, and a terminating pod needs none."""
    wanted: list[Key] = []
    if pod.deleting:
        return wanted
    for key, version in pod.objects.items():
        plural, _, name = key.partition("/")
        if plural in WATCHED and name and not version.startswith(IMMUTABLE):
            wanted.append((ObjectKind(plural), pod.namespace, name))
    return wanted


def _anchors_of(pod: PodSnapshot, bundles: Mapping[str, StoredObject]) -> dict[tuple[str, str], str]:
    """Return the versions of the trust bundles that a pod mounts; empty for one that is refused."""
    found = {}
    for source in trust_sources(pod.pod):
        try:
            version = anchors(source, bundles).version
        except TrustBundleRefused:
            version = ""
        found[pod.namespace, trust_bundle_key(source)] = version
    return found


def _outdated(pod: PodSnapshot, versions: Versions) -> dict[str, str]:
    """Return the known objects that a pod mounts in another version; usually none."""
    return {name: shown for name, shown in pod.objects.items() if versions.get((pod.namespace, name), shown) != shown}


def _named(key: Key) -> tuple[str, str]:
    kind, namespace, name = key
    return namespace, f"{kind}/{name}"
