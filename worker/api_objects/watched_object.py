"""Watches one ConfigMap or Secret while pods of this node refer to it.

Created by `watched_objects`. The node authorizer only allows watches of single objects that the node's pods refer to, so each
has its own (pkg/kubelet/util/manager/watch_based_manager.go). The last known object stays available while the API server is
not.
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
from worker.api_objects.informer import without_managed_fields
from worker.daemon.loop_restarts import restart_on_error

PACE: Final = Pace(first_pause=0.05, watch_seconds=(1800, 3600))
"""Starts fast: the authorizer may learn of a pod a moment after the node, and a caller waits. A watch lasts as long as the
kubelet's."""
_CONTENT: Final = ("data", "binaryData", "type", "immutable")


class WatchedObject:
    """The last known state of one object, and the task that watches it."""

    def __init__(self, api: ApiServer, resource: Resource, place: tuple[str, str], changed: Callable[[], None]) -> None:
        """Start the watch; `changed` is called for each change, including the first read."""
        namespace, name = place
        self._changed = changed
        self._read = asyncio.Event()
        self.kept: StoredObject | None = None
        """The last known object; None: it does not exist, or was never read."""
        self._reflector = Reflector(
            api,
            resource.path(namespace=namespace),
            what=f"{resource.plural} {namespace}/{name}",
            field_selector=f"metadata.name={name}",
            pace=PACE,
        )
        what = f"watch {resource.plural} {namespace}/{name}"
        self._following = asyncio.create_task(restart_on_error(what, self._follow), name=what)

    @property
    def was_read(self) -> bool:
        """Report whether it was read once, or found not to exist."""
        return self._read.is_set()

    @property
    def version(self) -> str:
        """The known version; empty if there is no object."""
        return self.kept.version if self.kept else ""

    @property
    def trouble(self) -> str:
        """Why it cannot be read at the moment; empty if it can."""
        return self._reflector.trouble

    async def read(self, within: timedelta) -> bool:
        """Wait until it was read once; False on timeout."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within.total_seconds()):
                await self._read.wait()
        return self.was_read

    async def stop(self) -> None:
        """Stop the watch."""
        self._following.cancel()
        await asyncio.gather(self._following, return_exceptions=True)

    async def _follow(self) -> None:
        """Watch until the object is immutable."""
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
    """Return the new state; the version stays if the content did not change (only an annotation, an owner)."""
    now = without_managed_fields(found)
    if before is None or before.json["metadata"].get("uid") != now.json["metadata"].get("uid"):
        return now
    same = all(before.json.get(part) == found.get(part) for part in _CONTENT)
    return replace(now, version=before.version) if same else now
