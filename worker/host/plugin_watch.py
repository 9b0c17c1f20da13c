"""Keeps the registered plugins in sync with the sockets in `plugins_registry`.

Runs in the worker, the process that mounts. A new socket is registered; one that was created again (its plugin was
restarted) is registered again; one that is removed is deregistered. Sockets that exist at start are read first
(pluginwatcher/plugin_watcher.go, reconciler.go). Every plugin has a task of its own, so that one that hangs does not
delay others.
"""

import asyncio
import contextlib
import functools
import os
import stat
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from worker.daemon.background import in_background
from worker.machine.inotify import FolderWatch

if TYPE_CHECKING:
    from activities.clients.plugins.kinds import PluginKinds, Registered

FOLDER: Final = "plugins_registry"
_MODE: Final = 0o750
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 122.0
"""Maximum seconds between attempts to register a plugin (goroutinemap exponentialbackoff)."""
_RELIST_SECONDS: Final = 60.0
_RETRY_SECONDS: Final = 10.0

Identity = tuple[int, int, int]

_log: Final = structlog.get_logger(__name__)


def sockets_below(folder: Path) -> tuple[dict[Path, Identity], set[Path]]:
    """Find the sockets in a folder and below, each with an identity, and the folders to watch."""
    found: dict[Path, Identity] = {}
    folders = {folder}
    for entry in _entries(folder):
        path = Path(entry.path)
        with contextlib.suppress(OSError):
            if entry.is_dir(follow_symlinks=False):
                below, more = sockets_below(path)
                found |= below
                folders |= more
            elif not entry.name.startswith(".") and stat.S_ISSOCK((at := path.stat()).st_mode):
                found[path] = (at.st_dev, at.st_ino, at.st_ctime_ns)
    return found, folders


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        yield from sorted(entries, key=lambda one: one.name)


class PluginWatch:
    """The registrations in progress and done, by socket."""

    def __init__(self, root_dir: Path, kinds: Callable[[], "PluginKinds"]) -> None:
        """Follow the folder below the root directory; `kinds` is called with the first socket, because it loads gRPC."""
        self._folder = root_dir / FOLDER
        self._kinds = functools.cache(kinds)
        self._known: dict[Path, tuple[Identity, asyncio.Task[None]]] = {}
        self._ended: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Follow the folder until cancelled. Raises OSError if it cannot be followed; registrations stay."""
        while True:
            with ExitStack() as stack:
                folders = await asyncio.to_thread(self._make_and_list)
                watches = [stack.enter_context(FolderWatch(self._folder))]
                with contextlib.suppress(FileNotFoundError):  # one that was just removed is not among those found now
                    watches += [stack.enter_context(FolderWatch(one)) for one in folders - {self._folder}]
                found, now = await asyncio.to_thread(sockets_below, self._folder)
                self._reconcile(found)
                if now == folders:
                    await _first(watches)

    async def close(self) -> None:
        """Deregister every plugin."""
        self._reconcile({})
        await asyncio.gather(*self._ended, return_exceptions=True)

    def _make_and_list(self) -> set[Path]:
        self._folder.mkdir(mode=_MODE, parents=True, exist_ok=True)
        return sockets_below(self._folder)[1]

    def _reconcile(self, found: dict[Path, Identity]) -> None:
        for socket, (identity, task) in list(self._known.items()):
            if found.get(socket) != identity:
                del self._known[socket]
                self._ended.add(task)
                task.add_done_callback(self._ended.discard)
                task.cancel()
        for socket, identity in found.items():
            if socket not in self._known:
                self._known[socket] = (identity, asyncio.create_task(self._keep(socket)))

    async def _keep(self, socket: Path) -> None:
        """Register the plugin behind a socket; deregister it when cancelled, because the socket is gone or new."""
        plugin = await self._registered(socket)
        try:
            await asyncio.Event().wait()
        finally:
            plugin.remove()
            _log.info("plugin is gone", type=plugin.kind, name=plugin.name, socket=str(socket))

    async def _registered(self, socket: Path) -> "Registered":
        from activities.clients.plugins.kinds import PluginRefused, register  # noqa: PLC0415 - 3 MB, for whom has plugins
        from activities.clients.plugins.registration import PluginUnreachable  # noqa: PLC0415 - the same

        pause = _FIRST_PAUSE
        while True:
            try:
                plugin = await register(socket, self._kinds())
            except (PluginRefused, PluginUnreachable) as error:
                _log.warning("plugin not registered", socket=str(socket), error=str(error), again_in=pause)
            except Exception:  # noqa: BLE001 - a defect, or an answer that nobody foresaw: tried again like the others
                _log.exception("plugin not registered, for an unexpected reason", socket=str(socket), again_in=pause)
            else:
                said = {"type": plugin.kind, "name": plugin.name, "version": plugin.version}
                _log.info("plugin registered", endpoint=plugin.endpoint, **said)
                return plugin
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


async def _first(watches: list[FolderWatch]) -> None:
    """Wait until one of the folders changes, or until the next regular look."""
    waits = [asyncio.ensure_future(one.wait()) for one in watches]
    try:
        await asyncio.wait(waits, timeout=_RELIST_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in waits:
            one.cancel()


@asynccontextmanager
async def watching_plugins(root_dir: Path, kinds: Callable[[], "PluginKinds"]) -> AsyncIterator[None]:
    """Register plugins while the block runs; without a watchable folder there are none, but pods run."""
    watch = PluginWatch(root_dir, kinds)
    try:
        async with in_background("plugins", partial(_for_ever, watch)):
            yield
    finally:
        await watch.close()


async def _for_ever(watch: PluginWatch) -> None:
    while True:
        try:
            await watch.run()
        except OSError as error:
            _log.warning("plugins cannot be registered", error=str(error), again_in=_RETRY_SECONDS)
        await asyncio.sleep(_RETRY_SECONDS)
