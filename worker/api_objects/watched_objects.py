"""The ConfigMaps and Secrets of a node's pods, each watched from its first reading until nobody needs to hear of it.

Asked by `source` and, for what has changed, by `telling`. A watch lives while a volume shows its object, and a while longer where
it was only read (for variables, for a pull): the kubelet stops those after five syncs, too. What no pod refers to is read once
and not watched: a Secret that a PersistentVolume names.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from activities.clients.api_server.api_server import ApiServer
from activities.clients.api_server.resources import CONFIG_MAPS, SECRETS, Resource
from activities.objects.objects import ObjectKind, ObjectMissing, ObjectRefused, StoredObject
from proto.pod_snapshot import PodSnapshot
from worker.api_objects.referred import Reference, references
from worker.api_objects.watched_object import WatchedObject

WATCHED: Final[Mapping[ObjectKind, Resource]] = {ObjectKind.CONFIG_MAPS: CONFIG_MAPS, ObjectKind.SECRETS: SECRETS}
READ_WITHIN: Final = timedelta(seconds=3)
"""How long whoever needs an object waits for its first reading. The kubelet gives it a second and tries again after half of
one; here another try is history, and comes later."""
IDLE: Final = timedelta(minutes=5)
"""A watch of what nobody has read for so long is stopped, unless a volume shows it (five times syncFrequency)."""
SOON: Final = timedelta(seconds=30)
"""What was just read is kept though no snapshot names it yet."""

Key = tuple[ObjectKind, str, str]
"""Kind, namespace and name."""


@dataclass(slots=True)
class _Entry:
    watched: WatchedObject
    asked: float
    """When somebody last wanted to read it; monotonic."""
    answered: str | None = None
    """The version that was given then: empty for none, or where it could not be read; None: nobody has asked yet."""


class WatchedObjects:
    """All that is watched of one node; used from one event loop."""

    def __init__(self, api: ApiServer, pods: Callable[[], Iterable[PodSnapshot]], changed: Callable[[], None]) -> None:
        """Take the pods of the node, and who is to be told that something has changed."""
        self._api, self._pods, self._changed = api, pods, changed
        self._entries: dict[Key, _Entry] = {}
        self._references: dict[str, tuple[object, frozenset[Reference]]] = {}
        """By pod uid: the pod that was read, and what it refers to."""

    async def find(self, key: Key) -> StoredObject | None:
        """Answer a watched object, or one that is watched from now on; None for one that no pod of the node refers to.

        Raises ObjectMissing, and ObjectRefused when it can't be read.
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
        """Watch what volumes show, and stop what nobody needs any more."""
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
        """Give the version of all that was read, empty for what there is none of, and what was last answered of it.

        Who waits for something hears of what came after that answer; where nobody has asked, there is no such news.
        """
        return {
            key: (now := one.watched.version, now if one.answered is None else one.answered)
            for key, one in self._entries.items()
            if one.watched.was_read
        }

    async def stop(self) -> None:
        """Watch nothing any more."""
        ended, self._entries = list(self._entries.values()), {}
        await asyncio.gather(*(one.watched.stop() for one in ended))

    def _begin(self, key: Key) -> _Entry:
        kind, namespace, name = key
        watched = WatchedObject(self._api, WATCHED[kind], (namespace, name), self._changed)
        entry = self._entries[key] = _Entry(watched, time.monotonic())
        return entry

    def _referred(self) -> frozenset[Key]:
        """Name what the pods of the node refer to; a pod that has not changed is not read again."""
        known: dict[str, tuple[object, frozenset[Reference]]] = {}
        found: set[Key] = set()
        for pod in self._pods():
            before = self._references.get(pod.uid)
            known[pod.uid] = before if before and before[0] is pod.pod else (pod.pod, references(pod.pod))
            found |= {(kind, pod.namespace, name) for kind, name in known[pod.uid][1]}
        self._references = known
        return frozenset(found)


def is_needed(unread: float, *, shown: bool, referred: bool) -> bool:
    """Say whether an object is to be watched on, or kept where it is immutable, that nobody has read for so many seconds."""
    return shown or unread < (IDLE if referred else SOON).total_seconds()
