"""The pods that the manifest folder lists: one pod per file, one file per pod name, and why others are refused.

Called by `sources` after kernel events and for each rescan; it reads files but never waits, so it runs in a thread. A
file that becomes invalid keeps the pod of its last valid version; a removed file removes its pod
(pkg/kubelet/config/file.go; there a rescan drops the pod of an invalid file, here it continues and the error is
reported).
"""

import os
import stat
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

import structlog

from proto.refusals import Refusal
from worker.machine.fingerprint import Fingerprint
from worker.poller.manifests.manifest_file import Content, Gone, NotTaken, Unchanged, Unsettled, look_at
from worker.poller.manifests.static_pod import Refused, StaticPod

_log: Final = structlog.get_logger(__name__)

ReadManifest = Callable[[Path, bytes, datetime], StaticPod | Refused]


@dataclass(frozen=True, slots=True)
class Listing:
    """Everything that the folder lists at one moment."""

    pods: Mapping[str, StaticPod] = field(default_factory=dict)
    """By namespace/name."""
    refusals: tuple[Refusal, ...] = ()
    undecided: frozenset[str] = frozenset()
    """Paths that exist but never gave a pod so far: a pod that came from one of them is kept."""
    readable: bool = True
    """False if the folder cannot be read, so that no pod counts as unlisted."""
    unsettled: bool = False
    """A file is being written: look again soon."""
    remade: frozenset[str] = frozenset()
    """The pods (namespace/name) whose file was removed and made again since the last listing, with the same pod in it."""


@dataclass(frozen=True, slots=True)
class Objection:
    """Why a manifest is refused."""

    reason: str
    message: str
    pod: str = ""


@dataclass(slots=True)
class _Entry:
    """One file: its last valid pod, and what is wrong with it now."""

    fingerprint: Fingerprint | None = None
    digest: bytes = b""
    pod: StaticPod | None = None
    objection: Objection | None = None
    settled: bool = True
    keeps_pod: bool = True
    """It may still hold the pod that came from it before the poller started."""
    removed: str = ""
    """The UID of the pod of a file that was removed; the file there now was not read yet."""


class ManifestFolder:
    """The state of `staticPodPath`, a folder or a single file; not thread-safe."""

    def __init__(self, path: Path, read: ReadManifest, holders: Mapping[str, str] | None = None) -> None:
        """Take the path, how to read a manifest, and which file gave which pod (namespace/name) before the start."""
        self.path = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow a link that may be replaced later
        self._read = read
        self._holders = dict(holders or {})
        self._entries: dict[str, _Entry] = {}
        self._trouble: Objection | None = None
        self._readable = True
        self._since: dict[tuple[str, Objection], str] = {}
        self._remade: set[str] = set()

    def rescan(self, now: datetime) -> Listing:
        """Look at all files; unchanged files are not read again."""
        self._trouble, self._readable = None, True
        try:
            paths = _paths_of(self.path)
        except FileNotFoundError:
            paths = set()
            self._trouble = Objection("NoManifestFolder", "does not exist: it lists no pods until it is created again")
        except OSError as error:
            paths = set(self._entries)
            self._trouble = Objection("ManifestFolderUnreadable", f"{error.strerror}: its pods keep running")
            self._readable = False
        for path in self._entries.keys() - paths:
            del self._entries[path]
        if self._readable:
            for path in paths:
                self._look(path, now, closed=False)
        return self._listing(now)

    def removed(self, names: Collection[str]) -> None:
        """Note that the files of these names were removed; what is there by now is a new file."""
        for name in names:
            if (entry := self._entry(name)) and entry.pod:
                entry.removed, entry.fingerprint = entry.pod.uid, None

    def refresh(self, names: Collection[str], closed: Collection[str], now: datetime) -> Listing:
        """Look at these names only; `closed` are those for which an event reported a finished write."""
        is_folder = self.path.is_dir()
        folder = self.path if is_folder else self.path.parent
        for name in sorted(names):
            path = folder / name
            if not name.startswith(".") if is_folder else path == self.path:
                self._look(str(path), now, closed=name in closed)
        return self._listing(now)

    def gives_pod(self, name: str) -> bool:
        """Report whether the file of this name gave a pod."""
        entry = self._entry(name)
        return bool(entry and entry.pod)

    def _entry(self, name: str) -> _Entry | None:
        return self._entries.get(str(self.path / name)) or self._entries.get(str(self.path.parent / name))

    def _look(self, path: str, now: datetime, *, closed: bool) -> None:
        entry = self._entries.setdefault(path, _Entry())
        found = look_at(path, now, entry.fingerprint, closed=closed)
        entry.settled = not isinstance(found, Unsettled)
        match found:
            case Gone():
                del self._entries[path]
            case NotTaken(reason, message, keeps_pod):
                if not keeps_pod:
                    entry.pod = None
                entry.keeps_pod = keeps_pod
                entry.fingerprint, entry.digest = None, b""
                entry.objection = Objection(reason, message)
            case Content(data, digest, fingerprint):
                entry.fingerprint, entry.keeps_pod = fingerprint, True
                if digest != entry.digest:
                    entry.digest = digest
                    self._take(path, entry, data, now)
                if entry.removed and entry.pod and entry.pod.uid == entry.removed:
                    self._remade.add(f"{entry.pod.namespace}/{entry.pod.name}")
                entry.removed = ""
            case Unchanged() | Unsettled():
                pass

    def _take(self, path: str, entry: _Entry, data: bytes, now: datetime) -> None:
        try:
            found = self._read(Path(path), data, now)
        except Exception as error:  # noqa: BLE001 - other files must not be affected
            _log.exception("could not process a manifest; please report this", path=path)
            entry.objection = Objection("ManifestNotJudged", f"{type(error).__name__}: {error}"[:500])
            return
        match found:
            case Refused(reason=reason, message=message, pod=name):
                entry.objection = Objection(reason, message, name)
            case StaticPod() as pod:
                entry.pod, entry.objection = pod, None

    def _listing(self, now: datetime) -> Listing:
        undecided = frozenset(path for path, entry in self._entries.items() if entry.pod is None and entry.keeps_pod)
        candidates = {path: entry.pod for path, entry in self._entries.items() if entry.pod}
        pods, doubles = one_file_a_pod(candidates, undecided, self._holders)
        kept = {name: holder for name, holder in self._holders.items() if holder in undecided}
        self._holders = kept | {name: str(pod.path) for name, pod in pods.items()}
        objections = doubles | {path: entry.objection for path, entry in self._entries.items() if entry.objection}
        if self._trouble:
            objections[str(self.path)] = self._trouble
        remade, self._remade = self._remade & pods.keys(), set()
        return Listing(
            pods=pods,
            remade=frozenset(remade),
            refusals=self._refusals(objections, now),
            undecided=undecided,
            readable=self._readable,
            unsettled=any(not entry.settled for entry in self._entries.values()),
        )

    def _refusals(self, objections: Mapping[str, Objection], now: datetime) -> tuple[Refusal, ...]:
        """Return each refusal with the time it first occurred."""
        stamp = now.isoformat(timespec="seconds")
        self._since = {one: self._since.get(one, stamp) for one in objections.items()}
        found = []
        for (path, objection), since in sorted(self._since.items(), key=lambda item: item[0][0]):
            entry = self._entries.get(path)
            kept = entry.pod if entry and entry.objection else None
            pod = f"{kept.namespace}/{kept.name}" if kept else objection.pod
            found.append(Refusal(path, objection.reason, objection.message, since, pod, pod_kept=kept is not None))
        return tuple(found)


def one_file_a_pod(
    candidates: Mapping[str, StaticPod], undecided: Collection[str], holders: Mapping[str, str]
) -> tuple[dict[str, StaticPod], dict[str, Objection]]:
    """Choose the file of each pod name: the one that already gave it, otherwise the first by file name.

    Returns the pods by namespace/name and the refusals of the other files. A name whose file is undecided (it exists,
    but gives no pod just now) stays with that file.
    """
    taken = {name: holder for name, holder in holders.items() if holder in undecided}
    uids: dict[str, str] = {}
    pods: dict[str, StaticPod] = {}
    objections: dict[str, Objection] = {}
    full_names = {path: f"{pod.namespace}/{pod.name}" for path, pod in candidates.items()}
    for path in sorted(candidates, key=lambda path: (holders.get(full_names[path]) != path, path)):
        pod, name = candidates[path], full_names[path]
        if holder := taken.get(name):
            message = f"pod {name} is already defined by {holder}; give this one another name, or remove one of them"
            objections[path] = Objection("DuplicatePodName", message, name)
        elif holder := uids.get(pod.uid):
            message = f"metadata.uid: {pod.uid} is already that of the pod in {holder}; leave it out"
            objections[path] = Objection("DuplicatePodUID", message, name)
        else:
            taken[name] = uids[pod.uid] = path
            pods[name] = pod
    return pods, objections


def _paths_of(path: Path) -> set[str]:
    """List the files to look at: those of a folder that do not start with a dot, or the path itself."""
    mode = os.stat(path).st_mode  # noqa: PTH116 - errno decides
    if stat.S_ISDIR(mode):
        with os.scandir(path) as found:
            return {str(path / entry.name) for entry in found if not entry.name.startswith(".")}
    if stat.S_ISREG(mode):
        return {str(path)}
    raise OSError(0, "is neither a folder nor a file")
