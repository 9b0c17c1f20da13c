"""Signals pods when an object they mount or wait for has another version.

Run by `cluster_objects`. Level-triggered, like `worker/poller/object_watch.py` for a folder: the watched objects are compared with the
workflows' snapshots after each change, after a snapshot that mounts something else, and once a minute. So neither a lost event
nor a restart matters. A pod whose objects change for ever is signalled at growing intervals, so that its history stays small.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import structlog

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
from worker.delivery.workflow_signals import WorkflowSignals
from worker.objects.object_hints import Hint, LastNotified, Versions, object_hints

SOURCE: Final = "objects"
SETTLE: Final = 0.05
"""Seconds to wait after a change: related changes come together, and up to a hundred pods are compared once."""
EVERY: Final = 60.0
RETRY: Final = 2.0
"""Seconds until a failed signal is sent again."""

_log: Final = structlog.get_logger(__name__)
SendSignal = Callable[[str, ObjectsChanged], Awaitable[None]]
"""Numbers a signal and sends it to the workflow with that id; raises RPCError, RuntimeError and LeadUnavailable."""


class ObjectChangeSignals:
    """The loop that compares and signals."""

    def __init__(
        self,
        watched: WatchedObjects,
        bundles: ApiTrustBundles,
        pods: Callable[[], Iterable[PodSnapshot]],
        send_signal: SendSignal,
    ) -> None:
        self._watched, self._bundles, self._pods, self._send_signal = watched, bundles, pods, send_signal
        self._last_notified: LastNotified = {}
        self._failing = False
        self._sent = RecentRecordsByName()
        self._again: set[str] = set()
        """Workflow ids of pods whose lead has changed since the last comparison."""

    def tell_anew(self, workflow_ids: Collection[str]) -> None:
        """Signal again at the next comparison what pods do not show yet whose lead has changed."""
        self._again |= set(workflow_ids)

    async def run(self, changed: asyncio.Event) -> None:
        """Compare at once, after each change and once a minute, until cancelled."""
        while True:
            changed.clear()
            all_sent = await self.compare()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(EVERY if all_sent else RETRY):
                    await changed.wait()
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
        again, self._again = self._again, set()
        notified = {key: version for key, version in self._last_notified.items() if key[0] not in again}
        hints, self._last_notified = object_hints(behind, versions, notified, answered)
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
        try:
            await self._send_signal(hint.workflow_id, ObjectsChanged(SOURCE, hint.versions))
        except Exception as error:  # noqa: BLE001 - Temporal is away, or a defect: other pods must not be affected
            if not self._failing:  # told once, not at every retry
                _log.warning(
                    "a pod could not be signalled about a changed object", workflow=hint.workflow_id, err=str(error)
                )
            self._failing = True
            return False
        self._failing = False
        sent.add(now)
        if hint.workflow_id in self._again:
            return True  # told to the former lead
        self._last_notified |= {(hint.workflow_id, name): version for name, version in hint.versions.items()}
        return True


def signal_sender(signals: WorkflowSignals) -> SendSignal:
    """Return a function that signals workflows; one that has ended is ignored."""
    return lambda workflow_id, signal: signals.send(workflow_id, OBJECTS_CHANGED, signal)


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
