"""All objects of a kind that a node may list: RuntimeClasses, CSIDrivers, Services.

Followed from the moment when one is first asked for, as the kubelet's informers do from its start. What was read last stays
known while the API server is away.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

from activities.clients.api_server.api_server import ApiServer
from activities.clients.api_server.reflector import Changed, Listed, Reflector
from activities.clients.api_server.resources import Resource
from activities.objects.objects import StoredObject
from worker.documents.defects import in_spite_of_defects

READ_WITHIN: Final = timedelta(seconds=5)
_Name = tuple[str, str]
"""Namespace (empty where the kind has none) and name."""


class NotRead(Exception):
    """The kind was not read since this process began; says where and why."""


class FollowedKind:
    """One kind; used from one event loop."""

    def __init__(
        self,
        api: ApiServer,
        resource: Resource,
        changed: Callable[[], None] = lambda: None,
        cut: Callable[[dict[str, Any]], dict[str, Any]] = lambda found: found,
    ) -> None:
        """Follow nothing yet; `changed` is told of each change, `cut` gives what of an object is kept."""
        self._api, self._resource, self._changed = api, resource, changed
        self._reflector = Reflector(api, resource.path(), what=resource.plural)
        self._reflector.cut = cut
        self.known: dict[_Name, StoredObject] = {}
        """All that there are, as far as they were read."""
        self._read = asyncio.Event()
        self._following: asyncio.Task[None] | None = None

    @property
    def was_read(self) -> bool:
        """Say whether all were read once."""
        return self._read.is_set()

    def follow(self) -> None:
        """Begin to follow it."""
        if self._following is None:
            what = f"follow {self._resource.plural}"
            self._following = asyncio.create_task(in_spite_of_defects(what, self._follow), name=what)

    async def all(self) -> Mapping[_Name, StoredObject]:
        """Give all that there are, after the first list; raises NotRead."""
        self.follow()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._read.wait(), READ_WITHIN.total_seconds())
        if not self._read.is_set():
            why = self._reflector.trouble or f"no answer within {READ_WITHIN.total_seconds():g} s"
            raise NotRead(f"{self._resource.plural} can't be read from {self._api.server}: {why}")
        return self.known

    async def stop(self) -> None:
        """Follow it no more."""
        following, self._following = self._following, None
        if following is not None:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    async def _follow(self) -> None:
        async with contextlib.aclosing(self._reflector.changes()) as changes:
            async for one in changes:
                self._take(one)
                del one  # whole objects, of which less is kept
                self._read.set()
                self._changed()

    def _take(self, said: Listed | Changed) -> None:
        match said:
            case Listed(items=items):
                self.known = {_name(found): kept(found) for found in items}
            case Changed(type="DELETED", object=found):
                self.known.pop(_name(found), None)
            case Changed(object=found):
                self.known[_name(found)] = kept(found)


def kept(found: Mapping[str, Any]) -> StoredObject:
    """Keep of an object what somebody may ask for: who wrote which field is as long as the rest, and nobody's business."""
    metadata = {key: value for key, value in found["metadata"].items() if key != "managedFields"}
    return StoredObject(str(metadata.get("resourceVersion", "")), {**found, "metadata": metadata})


def _name(found: Mapping[str, Any]) -> _Name:
    return found["metadata"].get("namespace", ""), found["metadata"]["name"]
