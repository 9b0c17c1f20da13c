"""Lists and watches a collection of the API server: a complete list first, then every change.

A `Listed` is always complete: pages are joined first, so that a part is never taken for the whole. A watch that ends
continues from its last resourceVersion (bookmarks keep that recent). Only when that version is too old (410), or newer
than all that the server knows, the collection is listed again (client-go tools/cache/reflector.go). Every failure is
retried with backoff.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Final

import structlog

from activities.clients.api_server.api_server import ApiAway, ApiRefused, ApiServer, Json

FIRST_PAUSE: Final = 0.8
LONGEST_PAUSE: Final = 30.0
PAGE: Final = 500
SHORTEST_WATCH: Final = 1.0
"""Seconds.

A watch that ends sooner without an event counts as a failure, so that a broken server is not called in a tight loop.
"""
TOO_LARGE: Final = "Too large resource version"
"""A server's message about a version that it has not reached: it was restored from an older state."""
WATCH_SECONDS: Final = (300, 600)
"""A watch lasts a random time between these, so that not all nodes reconnect at once."""

_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Pace:
    """How often a server is called."""

    first_pause: float = FIRST_PAUSE
    """Seconds after a first failure; may be replaced for a faster retry."""
    watch_seconds: tuple[int, int] = WATCH_SECONDS
    """A watch lasts a random time between these."""


@dataclass(frozen=True, slots=True)
class Listed:
    """All objects of the collection.

    The list is the whole collection: keep no reference to it if you need only a part.
    """

    items: tuple[Json, ...]


@dataclass(frozen=True, slots=True)
class Changed:
    """One object was ADDED, MODIFIED or DELETED (then in its last state)."""

    type: str
    object: Json


@dataclass(slots=True)
class _Way:
    """How far a collection was followed."""

    pause: float
    version: str = ""
    """Empty: a list is needed."""
    received: bool = False
    """The watch has delivered something."""
    doubted: bool = False
    """The server was unavailable and may have returned with an older state."""


class Reflector:
    """Follows one collection, or one object by a field selector."""

    def __init__(
        self,
        api: ApiServer,
        path: str,
        *,
        what: str,
        field_selector: str = "",
        pace: Pace | None = None,
    ) -> None:
        """Take the collection's path, its name in logs, and how often it may be requested."""
        self._api, self._path, self._what = api, path, what
        self._query = {"fieldSelector": field_selector} if field_selector else {}
        self._pace = pace or Pace()
        self.cut: Callable[[Json], Json] = lambda found: found
        """Reduces an object to what is wanted, so that a large collection is never held as a whole, not even while it is listed."""
        self._trouble = ""

    @property
    def trouble(self) -> str:
        """Say why the collection cannot be followed at the moment; empty while it can."""
        return self._trouble

    async def changes(self) -> AsyncGenerator[Listed | Changed, None]:
        """Yield a list first and again whenever the watch cannot continue, and changes in between.

        Never ends by itself.
        """
        way = _Way(self._pace.first_pause)
        while True:
            wait = 0.0
            try:
                if not way.version:
                    yield await self._list(way)
                began, way.received = time.monotonic(), False
                async with contextlib.aclosing(self._watch(way)) as watched:
                    async for change in watched:
                        yield change
                if way.received or time.monotonic() - began > SHORTEST_WATCH:
                    continue
                self._note("a watch ended at once without an event")
            except (ApiAway, ApiRefused, LookupError, TypeError, ValueError) as error:
                wait = self._failed(way, error)
            await asyncio.sleep(max(wait, way.pause * random.uniform(1, 2)))  # noqa: S311 - no secret
            way.pause = min(way.pause * 2, LONGEST_PAUSE)

    async def _watch(self, way: _Way) -> AsyncGenerator[Changed, None]:
        """Yield the changes of one watch.

        Ends when the server ends it, or when the server turns out to have an older state.
        """
        if way.doubted:  # a server that was unavailable may have an older state, and a watch from our version would be silent for long
            asked = {"resourceVersion": way.version, "resourceVersionMatch": "NotOlderThan", "limit": "1"}
            await self._api.get(self._path, **self._query, **asked)
            way.doubted = False
        seconds = random.randint(*self._pace.watch_seconds)  # noqa: S311 - no secret
        async for event in self._api.watch(self._path, seconds=seconds, resourceVersion=way.version, **self._query):
            version = event["object"]["metadata"]["resourceVersion"]
            if is_older_state(event["type"], way.version, version):
                way.version = ""
                return
            way.pause, way.received, way.version = self._pace.first_pause, True, version
            self._note("")
            if event["type"] != "BOOKMARK":
                yield Changed(event["type"], self.cut(event["object"]))

    def _failed(self, way: _Way, error: Exception) -> float:
        """Return from where to continue after a failure, and how many seconds the server wants no call."""
        match error:
            case ApiAway():
                self._note(str(error))
                way.version = "" if TOO_LARGE in str(error) else way.version
                way.doubted = bool(way.version)
                return error.retry_after.total_seconds() if error.retry_after else 0.0
            case ApiRefused(gone=True):
                pass  # listed again, as after a watch that is too old
            case ApiRefused():
                self._note(str(error))
            case _:
                self._note(f"the answer is not an API object: {error!r}")
        way.version = ""
        return 0.0

    async def _list(self, way: _Way) -> Listed:
        """Read all pages; when a continuation has expired, request everything at once."""
        items: list[Json] = []
        token, page_size = "", str(PAGE)
        while True:
            query = self._query | ({"limit": page_size} if page_size else {}) | ({"continue": token} if token else {})
            try:
                page = await self._api.get(self._path, **query)
            except ApiRefused as error:
                if token and error.gone:
                    items, token, page_size = [], "", ""
                    continue
                raise
            kind, version = str(page.get("kind", "")).removesuffix("List"), page.get("apiVersion")
            items += [self.cut({"kind": kind, "apiVersion": version, **item}) for item in page.get("items") or ()]
            metadata = page["metadata"]
            if not (token := metadata.get("continue") or ""):
                way.version = metadata["resourceVersion"]
                self._note("")
                return Listed(tuple(items))

    def _note(self, trouble: str) -> None:
        """Log once that the collection cannot be followed, and once that it can again."""
        if trouble and not self._trouble:
            _log.warning("the API server cannot be followed, it is tried again", what=self._what, err=trouble)
        elif self._trouble and not trouble:
            _log.info("the API server is followed again", what=self._what)
        self._trouble = trouble


def is_older_state(kind: str, known: str, bookmark: str) -> bool:
    """Report whether a bookmark is older than what we know: etcd was restored, and the watch would be silent until it catches up."""
    return kind == "BOOKMARK" and known.isdecimal() and bookmark.isdecimal() and int(bookmark) < int(known)
