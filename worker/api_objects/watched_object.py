"""One ConfigMap or Secret, watched while pods of this node refer to it.

Made by `watched_objects`. The node authorizer lets a node watch single objects that its pods name, so each has a watch of its own
(pkg/kubelet/util/manager/watch_based_manager.go). What was read last stays known while the API server is away.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from activities.clients.api_server.api_server import ApiServer
from activities.clients.api_server.reflector import Changed, Listed, Pace, Reflector
from activities.clients.api_server.resources import Resource
from activities.objects.objects import StoredObject
from worker.api_objects.followed_kind import kept
from worker.documents.defects import in_spite_of_defects

PACE: Final = Pace(first_pause=0.05, watch_seconds=(1800, 3600))
"""The authorizer may learn of a pod a moment after the node does, and somebody waits then; a watch lasts as the kubelet's."""
_CONTENT: Final = ("data", "binaryData", "type", "immutable")


class WatchedObject:
    """What is known of one object, and the task that follows it."""

    def __init__(self, api: ApiServer, resource: Resource, place: tuple[str, str], changed: Callable[[], None]) -> None:
        """Begin to watch; `changed` is told of each change, the first reading included."""
        namespace, name = place
        self._changed = changed
        self._read = asyncio.Event()
        self.kept: StoredObject | None = None
        """As it was last seen; None: there is none, or it was never read."""
        self._reflector = Reflector(
            api,
            resource.path(namespace=namespace),
            what=f"{resource.plural} {namespace}/{name}",
            field_selector=f"metadata.name={name}",
            pace=PACE,
        )
        what = f"watch {resource.plural} {namespace}/{name}"
        self._following = asyncio.create_task(in_spite_of_defects(what, self._follow), name=what)

    @property
    def was_read(self) -> bool:
        """Say whether the API server has told of it, be it that there is none."""
        return self._read.is_set()

    @property
    def version(self) -> str:
        """Say which version is known; empty: of none."""
        return self.kept.version if self.kept else ""

    @property
    def trouble(self) -> str:
        """Say why it can't be read at the moment; empty while it can."""
        return self._reflector.trouble

    async def read(self, within: timedelta) -> bool:
        """Wait until it was read once; False when that takes longer."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._read.wait(), within.total_seconds())
        return self.was_read

    async def stop(self) -> None:
        """Watch no more."""
        self._following.cancel()
        await asyncio.gather(self._following, return_exceptions=True)

    async def _follow(self) -> None:
        """Follow it until it promises not to change any more."""
        async with contextlib.aclosing(self._reflector.changes()) as changes:
            async for one in changes:
                match one:
                    case Listed(items=()) | Changed(type="DELETED"):
                        self.kept = None
                    case Listed(items=(found, *_)) | Changed(object=found):
                        self.kept = newer(self.kept, found)
                self._read.set()
                self._changed()
                if self.kept and self.kept.immutable:
                    return


def newer(before: StoredObject | None, found: dict[str, Any]) -> StoredObject:
    """Take an object as it is now; it keeps its version while nothing of its content changes (an annotation, an owner)."""
    now = kept(found)
    if before is None or before.json["metadata"].get("uid") != now.json["metadata"].get("uid"):
        return now
    same = all(before.json.get(part) == found.get(part) for part in _CONTENT)
    return replace(now, version=before.version) if same else now
