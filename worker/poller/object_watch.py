"""Signals pods that an object they use has a new version, by comparing the objects folder with the pods' snapshots.

Level-triggered: after each kernel event and once a minute the versions of all files are compared with those that each
pod uses (`observed.json`), so neither a lost event nor a restart matters. A pod is signalled once for each version.
Files are only stat'ed; the worker reads them.
"""

import asyncio
import contextlib
import os
import stat
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Final

import structlog

from activities.objects.objects import ObjectKind
from proto.temporal.signals import ObjectsChanged
from worker.machine.fingerprint import fingerprint_of
from worker.machine.inotify import FolderEvent, Mask, WatchedFolders
from worker.objects.folder import SUFFIXES
from worker.objects.object_hints import Hint, LastNotified, Versions, object_hints
from worker.poller.calls.pod_workflows import PodWorkflows
from worker.poller.calls.temporal_calls import TemporalUnavailable
from worker.poller.runtime.known_pods import KnownPods

SOURCE: Final = "objects"
SETTLE: Final = 0.1
"""Seconds to wait after an event, so that related changes are handled together."""
RETRY: Final = 2.0
"""Seconds until a failed signal is retried, and between two looks without inotify."""
ABSENT: Final = 10.0
"""Seconds until a missing folder is looked for again."""
_SHOWN: Final = (ObjectKind.CONFIG_MAPS, ObjectKind.SECRETS, ObjectKind.PERSISTENT_VOLUME_CLAIMS)
_WHOLE: Final = Mask.CLOSE_WRITE | Mask.MOVED_TO | Mask.MOVED_FROM | Mask.DELETE | Mask.ATTRIB

_log: Final = structlog.get_logger(__name__)


class ObjectWatch:
    """Watches one node's objects folder."""

    def __init__(self, folder: Path, known: KnownPods, workflows: PodWorkflows) -> None:
        self._folder, self._known, self._workflows = folder, known, workflows
        self._signalled: LastNotified = {}
        self._versions: Versions | None = None
        self._again: set[str] = set()
        """Workflow ids of pods whose lead has changed since the last comparison."""
        self._anew = asyncio.Event()
        self._trouble = ""

    def tell_anew(self, workflow_ids: Collection[str]) -> None:
        """Compare again what pods show whose lead has changed."""
        self._again |= set(workflow_ids)
        self._anew.set()

    async def follow(self, every: float, turned: Callable[[], None] = lambda: None) -> None:
        """Compare now, after each change and at an interval, until cancelled; `turned` is called each time."""
        with contextlib.ExitStack() as stack:
            watch, trouble = None, []
            try:
                watch = stack.enter_context(WatchedFolders())
            except OSError as error:  # the user's limit of inotify instances is reached: works without
                trouble = [error]
            while True:
                turned()
                folders = await asyncio.to_thread(folders_of, self._folder)
                refused = watch.watch(folders) if watch else trouble  # before the listing, so that no change is missed
                self._warn(refused)
                compared = await self.compare()
                await self._change(
                    watch, min(RETRY if refused or not compared else every if folders else ABSENT, every)
                )

    async def compare(self) -> bool:
        """Compare all versions and signal the pods; False if a pod could not be signalled."""
        versions = await asyncio.to_thread(versions_of, self._folder)
        pods = await asyncio.to_thread(self._known.all)
        self._anew.clear()
        again, self._again = self._again, set()
        signalled = {key: version for key, version in self._signalled.items() if key[0] not in again}
        hints, self._signalled = object_hints(pods.values(), versions, signalled, self._versions)
        self._versions = versions
        return all(await asyncio.gather(*map(self._signal, hints)))

    async def _change(self, watch: WatchedFolders | None, seconds: float) -> None:
        """Wait for a change, and for those that follow within a moment."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while (left := until - loop.time()) > 0:
            await self._wait(watch, left)
            if self._anew.is_set():
                return
            if watch and any(is_change(event) for event in watch.read()):
                await asyncio.sleep(SETTLE)
                watch.read()
                return

    async def _wait(self, watch: WatchedFolders | None, seconds: float) -> None:
        """Wait for an event, or until a pod is to be told anew."""
        waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._anew.wait())]
        if watch:
            waits.append(asyncio.ensure_future(watch.wait()))
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()

    def _warn(self, refused: list[OSError]) -> None:
        trouble = str(refused[0]) if refused else ""
        if trouble and trouble != self._trouble:
            _log.warning("no inotify watch on the objects; checking them every 2 s", err=trouble)
        self._trouble = trouble

    async def _signal(self, hint: Hint) -> bool:
        signal = ObjectsChanged(SOURCE, hint.versions, self._workflows.numbers.next())
        try:
            await self._workflows.objects_changed(hint.workflow_id, signal)
        except TemporalUnavailable:  # logged where it was detected
            return False
        except Exception as error:  # noqa: BLE001 - refused, or a defect: other pods must not be affected
            _log.error("could not signal a changed object to a pod", workflow=hint.workflow_id, err=str(error)[:500])
        if hint.workflow_id in self._again:
            return True  # told to the former lead
        self._signalled |= {(hint.workflow_id, name): version for name, version in hint.versions.items()}
        return True


def versions_of(folder: Path) -> dict[tuple[str, str], str]:
    """List the versions of all objects whose changes volumes follow or wait for."""
    found: dict[tuple[str, str], str] = {}
    folder = Path(os.path.realpath(folder))
    for namespace in _names(folder):
        for kind in _SHOWN:
            place = folder / namespace / kind
            for file in _names(place):
                suffix = next((one for one in SUFFIXES if file.endswith(one)), "")
                if not suffix or file.startswith("."):
                    continue
                key = (namespace, f"{kind}/{file.removesuffix(suffix)}")
                with contextlib.suppress(OSError):
                    version = fingerprint_of((place / file).stat(follow_symlinks=False)).version
                    found[key] = f"{found[key]} {version}" if key in found else version
    return found


def folders_of(folder: Path) -> list[Path]:
    """List the folders in which changes may occur: the folder itself, its namespaces, and their kinds."""
    folder = Path(os.path.realpath(folder))
    namespaces = [folder / name for name in _names(folder)]
    inside = [one / kind for one in namespaces for kind in _SHOWN]
    return [one for one in (folder, *namespaces, *inside) if _is_folder(one)]


def is_change(event: FolderEvent) -> bool:
    """Report whether an event can mean a new version: a file or folder was created, moved, removed or written."""
    return bool(event.mask & (_WHOLE | Mask.CREATE | Mask.DELETE_SELF | Mask.MOVE_SELF | Mask.OVERFLOW))


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - names only
    except OSError:
        return []


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.stat(follow_symlinks=False).st_mode)
    except OSError:
        return False
