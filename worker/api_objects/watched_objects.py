"""The watches of the ConfigMaps and Secrets of a node's pods.

Used by `source`, and by `change_signals` for changes. A watch lasts while a volume mounts its object, and for some minutes
after it was only read (for variables or a pull); the kubelet stops those after five syncs. An object that no pod refers to is
read once and not watched, such as a Secret of a PersistentVolume.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from activities.clients.api_server.api_server import ApiServer
from activities.clients.api_server.resources import CONFIG_MAPS, SECRETS, Resource
from activities.execution.one_by_one import log_bad_item
from activities.objects.objects import ObjectKind, ObjectMissing, ObjectRefused, StoredObject
from proto.pod_snapshot import PodSnapshot
from worker.api_objects.references import Reference, references
from worker.api_objects.watched_object import WatchedObject

WATCHED: Final[Mapping[ObjectKind, Resource]] = {ObjectKind.CONFIG_MAPS: CONFIG_MAPS, ObjectKind.SECRETS: SECRETS}
READ_WITHIN: Final = timedelta(seconds=3)
"""How long a caller waits for the first read. The kubelet waits a second and retries after half a second; here each retry is an
activity attempt in history, and comes later."""
IDLE: Final = timedelta(minutes=5)
"""A watch whose object has not been read for this long is stopped, unless a volume mounts it (five times syncFrequency)."""
SOON: Final = timedelta(seconds=30)
"""An object that was just read is kept, although no snapshot refers to it yet."""

Key = tuple[ObjectKind, str, str]
"""Kind, namespace and name."""


@dataclass(slots=True)
class _Entry:
    watched: WatchedObject
    asked: float
    """When it was last requested, by the monotonic clock."""
    answered: str | None = None
    """The version returned then: empty if there was none or it could not be read; None: never requested."""


class WatchedObjects:
    """All watches of one node; used from one event loop."""

    def __init__(self, api: ApiServer, pods: Callable[[], Iterable[PodSnapshot]], changed: Callable[[], None]) -> None:
        """Take the function that returns the node's pods, and one to call on changes."""
        self._api, self._pods, self._changed = api, pods, changed
        self._entries: dict[Key, _Entry] = {}
        self._references: dict[str, tuple[object, frozenset[Reference]]] = {}
        """By pod uid: the pod that was scanned, and its references."""

    async def find(self, key: Key) -> StoredObject | None:
        """Return an object and watch it from now on; None if no pod of the node refers to it.

        Raises ObjectMissing, and ObjectRefused if it cannot be read.
        """
        kind, namespace, name = key
        entry = self._entries.get(key)
        if entry is None:
            if key not in self._referred():
                return None
            entry = self._begin(key)
        entry.asked = time.monotonic()
        was_read = await entry.watched.read(READ_WITHIN)
        entry.answered = entry.watched.version
        if not was_read:
            why = entry.watched.trouble or f"no answer within {READ_WITHIN.total_seconds():g} s"
            raise ObjectRefused(f"{kind.singular} {namespace}/{name} can't be read from {self._api.server}: {why}")
        if entry.watched.kept is None:
            raise ObjectMissing(kind, name)
        return entry.watched.kept

    async def follow(self, shown: frozenset[Key]) -> None:
        """Watch what volumes mount, and stop watches that are not needed any more."""
        for key in shown - self._entries.keys():
            self._begin(key)
        now, referred = time.monotonic(), self._referred()
        over = [
            key
            for key, entry in self._entries.items()
            if not is_needed(now - entry.asked, shown=key in shown, referred=key in referred)
        ]
        ended = [self._entries.pop(key) for key in over]
        await asyncio.gather(*(one.watched.stop() for one in ended))

    def read(self) -> dict[Key, tuple[str, str]]:
        """Return the current version of each object (empty if there is none), and the version last returned to a caller.

        A pod that waits for an object is signalled for changes since the latter; for an object that was never requested, both
        are equal.
        """
        return {
            key: (now := one.watched.version, now if one.answered is None else one.answered)
            for key, one in self._entries.items()
            if one.watched.was_read
        }

    async def stop(self) -> None:
        """Stop all watches."""
        ended, self._entries = list(self._entries.values()), {}
        await asyncio.gather(*(one.watched.stop() for one in ended))

    def _begin(self, key: Key) -> _Entry:
        kind, namespace, name = key
        watched = WatchedObject(self._api, WATCHED[kind], (namespace, name), self._changed)
        entry = self._entries[key] = _Entry(watched, time.monotonic())
        return entry

    def _referred(self) -> frozenset[Key]:
        """Return what the node's pods refer to; an unchanged pod is not scanned again."""
        known: dict[str, tuple[object, frozenset[Reference]]] = {}
        found: set[Key] = set()
        for pod in self._pods():
            before = self._references.get(pod.uid)
            try:
                known[pod.uid] = before if before and before[0] is pod.pod else (pod.pod, references(pod.pod))
            except Exception as error:  # noqa: BLE001 - other pods must not be affected
                log_bad_item("objects of pods", pod.uid, error)
                continue
            found |= {(kind, pod.namespace, name) for kind, name in known[pod.uid][1]}
        self._references = known
        return frozenset(found)


def is_needed(unread: float, *, shown: bool, referred: bool) -> bool:
    """Report whether to keep watching (or caching) an object that has not been read for `unread` seconds."""
    return shown or unread < (IDLE if referred else SOON).total_seconds()
