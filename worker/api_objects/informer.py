"""Caches all objects of a kind that a node may list: RuntimeClasses, CSIDrivers, Services.

It starts with the first request, while the kubelet's informers start with the process. The last known objects stay available
while the API server is not.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any, Final

from activities.clients.api_server.api_server import ApiServer
from activities.clients.api_server.reflector import Changed, Listed, Reflector
from activities.clients.api_server.resources import Resource
from activities.execution.one_by_one import one_by_one
from activities.objects.objects import StoredObject
from worker.daemon.loop_restarts import restart_on_error

READ_WITHIN: Final = timedelta(seconds=5)
_Name = tuple[str, str]
"""Namespace (empty for a cluster-scoped kind) and name."""


class NotSynced(Exception):
    """The kind was not listed since this process began; the message says from where and why."""


class Informer:
    """The cache of one kind; used from one event loop."""

    def __init__(
        self,
        api: ApiServer,
        resource: Resource,
        changed: Callable[[], None] = lambda: None,
        cut: Callable[[dict[str, Any]], dict[str, Any]] = lambda found: found,
        *,
        field_selector: str = "",
    ) -> None:
        """Does not start yet; `changed` is called for each change, `cut` returns the part of an object to keep."""
        self._api, self._resource, self._changed = api, resource, changed
        self._reflector = Reflector(api, resource.path(), what=resource.plural, field_selector=field_selector)
        self._reflector.cut = cut
        self.known: dict[_Name, StoredObject] = {}
        """All known objects."""
        self._read = asyncio.Event()
        self._following: asyncio.Task[None] | None = None

    @property
    def was_read(self) -> bool:
        """Report whether the first list is complete."""
        return self._read.is_set()

    def follow(self) -> None:
        """Start it."""
        if self._following is None:
            what = f"follow {self._resource.plural}"
            self._following = asyncio.create_task(restart_on_error(what, self._follow), name=what)

    async def all(self) -> Mapping[_Name, StoredObject]:
        """Return all objects, after the first list; raises NotSynced."""
        self.follow()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(READ_WITHIN.total_seconds()):
                await self._read.wait()
        if not self._read.is_set():
            why = self._reflector.trouble or f"no answer within {READ_WITHIN.total_seconds():g} s"
            raise NotSynced(f"{self._resource.plural} can't be read from {self._api.server}: {why}")
        return self.known

    async def stop(self) -> None:
        """Stop it."""
        following, self._following = self._following, None
        if following is not None:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    async def _follow(self) -> None:
        async with contextlib.aclosing(self._reflector.changes()) as changes:
            async for one in changes:
                self._take(one)
                del one  # frees the whole object, of which only a part is kept
                self._read.set()
                self._changed()

    def _take(self, change: Listed | Changed) -> None:
        match change:
            case Listed(items=items):
                self.known = {name: stored for _, (name, stored) in self._readable(items)}
            case Changed(type=kind, object=found):
                for _, (name, stored) in self._readable([found]):
                    if kind == "DELETED":
                        self.known.pop(name, None)
                    else:
                        self.known[name] = stored

    def _readable(
        self, found: Iterable[Mapping[str, Any]]
    ) -> Iterator[tuple[Mapping[str, Any], tuple[_Name, StoredObject]]]:
        """Read objects; one that is malformed is left out."""
        return one_by_one(
            self._resource.plural,
            found,
            lambda one: (_name(one), without_managed_fields(one)),
            lambda one: one["metadata"],
        )


def without_managed_fields(found: Mapping[str, Any]) -> StoredObject:
    """Return the object without managedFields, which are as long as the rest and are not used."""
    metadata = {key: value for key, value in found["metadata"].items() if key != "managedFields"}
    return StoredObject(str(metadata.get("resourceVersion", "")), {**found, "metadata": metadata})


def _name(found: Mapping[str, Any]) -> _Name:
    return found["metadata"].get("namespace", ""), found["metadata"]["name"]
