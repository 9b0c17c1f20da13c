"""The loop that follows the manifest folder and yields what it lists.

Started by the poller. Kernel events are handled at once; a rescan every 20 s (the kubelet's fileCheckFrequency) catches
what has no event: a link with a changed target, a network file system, a lost event. The watch follows the path, not
the folder: a folder that is removed, renamed or replaced by a link is found again (pkg/kubelet/config/file_linux.go).
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import structlog

from worker.machine.inotify import LOST, FolderEvent, FolderWatch, Mask
from worker.poller.manifests.manifest_file import SETTLE
from worker.poller.manifests.manifest_folder import Listing, ManifestFolder

FILE_CHECK_FREQUENCY: Final = timedelta(seconds=20)
WATCH_RETRY: Final = timedelta(seconds=1)
REMOVAL_SETTLES: Final = timedelta(milliseconds=50)
"""A removal waits for the events that follow, so that an editor that saves by renaming does not restart a pod."""

_log: Final = structlog.get_logger(__name__)
_REMOVAL: Final = Mask.MOVED_FROM | Mask.DELETE
_WHOLE: Final = Mask.CLOSE_WRITE | Mask.MOVED_TO | _REMOVAL


class ManifestSource:
    """Follows one ManifestFolder while `listings` is iterated."""

    def __init__(self, folder: ManifestFolder, every: timedelta = FILE_CHECK_FREQUENCY) -> None:
        self._folder = folder
        self._every = every
        self._watch: FolderWatch | None = None
        self._watched: tuple[Path, int, int] | None = None
        self._trouble = ""

    async def listings(self) -> AsyncGenerator[Listing, None]:
        """Yield a listing at once, after each change, and after each rescan; never ends."""
        try:
            while True:
                self._follow_path()  # before the rescan, so that no change is missed between the two
                listing = await asyncio.to_thread(self._folder.rescan, datetime.now(UTC))
                yield listing
                loop = asyncio.get_running_loop()
                rescan_at = loop.time() + self._pause(listing).total_seconds()
                while (left := rescan_at - loop.time()) > 0:
                    events = await self._events(left)
                    if any(event.mask & LOST for event in events):
                        self._drop_watch()  # a new folder in its place may have the same inode number
                        break
                    if any(event.mask & Mask.OVERFLOW for event in events):
                        break
                    if events:
                        listing = await self._refresh(events)
                        yield listing
                        rescan_at = min(rescan_at, loop.time() + self._pause(listing).total_seconds())
        finally:
            self._drop_watch()

    def _pause(self, listing: Listing) -> timedelta:
        if listing.unsettled:
            return min(SETTLE, self._every)
        return self._every if self._watch else min(WATCH_RETRY, self._every)

    async def _events(self, seconds: float) -> list[FolderEvent]:
        """Wait for events; after the removal of a pod's file, also for those that follow within a moment."""
        if not self._watch:
            await asyncio.sleep(seconds)
            return []
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._watch.wait()
        events = self._watch.read()
        if any(event.mask & _REMOVAL and self._folder.gives_pod(event.name) for event in events):
            await asyncio.sleep(REMOVAL_SETTLES.total_seconds())
            events += self._watch.read()
        return events

    async def _refresh(self, events: Iterable[FolderEvent]) -> Listing:
        names = {event.name for event in events if event.name}
        closed = {event.name for event in events if event.mask & _WHOLE}
        # renamed away and made again is how editors save; removed and made again is meant
        self._folder.removed({event.name for event in events if event.mask & Mask.DELETE})
        return await asyncio.to_thread(self._folder.refresh, names, closed, datetime.now(UTC))

    def _follow_path(self) -> None:
        """Watch what the path refers to now: the folder, or the folder that holds the single file."""
        path = self._folder.path
        trouble = ""
        try:
            target = path.parent if path.is_file() else path
            found = target.stat()
            wanted = (target, found.st_dev, found.st_ino)
            if wanted == self._watched:
                return
            self._drop_watch()
            self._watch, self._watched = FolderWatch(target), wanted
        except OSError as error:
            self._drop_watch()
            if not isinstance(error, FileNotFoundError):
                trouble = str(error)
        if trouble and trouble != self._trouble:
            _log.warning("no inotify watch on the manifests; reading them every second", path=path, err=trouble)
        self._trouble = trouble

    def _drop_watch(self) -> None:
        if self._watch:
            self._watch.close()
        self._watch = self._watched = None
