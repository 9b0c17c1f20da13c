"""A collection of the API server, followed: a complete list, then each change, for ever.

Used wherever this node needs to know many objects of a kind. A `Listed` is always complete: pages are put together before it is
given, so that nobody takes half of a list for all there is. A watch that ends goes on from its last resourceVersion
(bookmarks keep that young); only one that is too old (410), or newer than all that the server knows, is listed anew (client-go
tools/cache/reflector.go). Whatever fails is tried again after a growing pause, also a server that is too old for everything.
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
"""Seconds; one that ends sooner and told nothing counts as a failure, or a broken server would be asked without end."""
TOO_LARGE: Final = "Too large resource version"
"""What a server says of a version that it has not reached: it was restored from an older state."""
WATCH_SECONDS: Final = (300, 600)
"""A watch lasts a random time between these, so that not all nodes come back at once."""

_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Pace:
    """How often a server is asked."""

    first_pause: float = FIRST_PAUSE
    """Seconds after a first failure; somebody may wait who wants it tried again sooner."""
    watch_seconds: tuple[int, int] = WATCH_SECONDS
    """A watch lasts a random time between these."""


@dataclass(frozen=True, slots=True)
class Listed:
    """Everything that is there, complete. Who keeps little of it lets go of it: it is all that the server has."""

    items: tuple[Json, ...]


@dataclass(frozen=True, slots=True)
class Changed:
    """One object was ADDED, MODIFIED or DELETED (then it is as it was last)."""

    type: str
    object: Json


@dataclass(slots=True)
class _Way:
    """How far a collection was followed."""

    pause: float
    version: str = ""
    """Empty: it is to be listed."""
    heard: bool = False
    """The watch has told anything."""
    doubted: bool = False
    """The server was away: it may have come back with an older state."""


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
        """Take the collection's path, what it is called in the logs, and how often it may be asked for."""
        self._api, self._path, self._what = api, path, what
        self._query = {"fieldSelector": field_selector} if field_selector else {}
        self._pace = pace or Pace()
        self.cut: Callable[[Json], Json] = lambda found: found
        """Gives what of an object is wanted: of a large collection nobody shall hold the whole, not even while it is listed."""
        self._trouble = ""

    @property
    def trouble(self) -> str:
        """Say why it can't be followed at the moment; empty while it can."""
        return self._trouble

    async def changes(self) -> AsyncGenerator[Listed | Changed, None]:
        """Give a list first, and again whenever the way from it was lost; changes in between. Never ends by itself."""
        way = _Way(self._pace.first_pause)
        while True:
            wait = 0.0
            try:
                if not way.version:
                    yield await self._list(way)
                began, way.heard = time.monotonic(), False
                async with contextlib.aclosing(self._watch(way)) as watched:
                    async for change in watched:
                        yield change
                if way.heard or time.monotonic() - began > SHORTEST_WATCH:
                    continue
                self._note("a watch ended at once and told nothing")
            except (ApiAway, ApiRefused, LookupError, TypeError, ValueError) as error:
                wait = self._failed(way, error)
            await asyncio.sleep(max(wait, way.pause * random.uniform(1, 2)))  # noqa: S311 - no secret
            way.pause = min(way.pause * 2, LONGEST_PAUSE)

    async def _watch(self, way: _Way) -> AsyncGenerator[Changed, None]:
        """Give the changes of one watch; ends when the server ends it, or when it turns out to have gone back in time."""
        if (
            way.doubted
        ):  # whoever answers now may know less than we do, and a watch from there would tell nothing for long
            asked = {"resourceVersion": way.version, "resourceVersionMatch": "NotOlderThan", "limit": "1"}
            await self._api.get(self._path, **self._query, **asked)
            way.doubted = False
        seconds = random.randint(*self._pace.watch_seconds)  # noqa: S311 - no secret
        async for event in self._api.watch(self._path, seconds=seconds, resourceVersion=way.version, **self._query):
            version = event["object"]["metadata"]["resourceVersion"]
            if went_back(event["type"], way.version, version):
                way.version = ""
                return
            way.pause, way.heard, way.version = self._pace.first_pause, True, version
            self._note("")
            if event["type"] != "BOOKMARK":
                yield Changed(event["type"], self.cut(event["object"]))

    def _failed(self, way: _Way, error: Exception) -> float:
        """Say from where to go on after a failure, and how many seconds the server wants to be left alone."""
        match error:
            case ApiAway():
                self._note(str(error))
                way.version = "" if TOO_LARGE in str(error) else way.version
                way.doubted = bool(way.version)
                return error.retry_after.total_seconds() if error.retry_after else 0.0
            case ApiRefused(gone=True):
                pass  # listed anew, as a watch that is too old always is
            case ApiRefused():
                self._note(str(error))
            case _:
                self._note(f"what came back is no object of the API: {error!r}")
        way.version = ""
        return 0.0

    async def _list(self, way: _Way) -> Listed:
        """Read all pages; where a continuation has expired everything is asked for at once, as a whole."""
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
        """Say once that it cannot be followed, and once that it can again."""
        if trouble and not self._trouble:
            _log.warning("the API server cannot be followed, it is tried again", what=self._what, err=trouble)
        elif self._trouble and not trouble:
            _log.info("the API server is followed again", what=self._what)
        self._trouble = trouble


def went_back(kind: str, known: str, told: str) -> bool:
    """Say whether a bookmark is older than what we know: an etcd was restored, and would tell us nothing until it catches up."""
    return kind == "BOOKMARK" and known.isdecimal() and told.isdecimal() and int(told) < int(known)
