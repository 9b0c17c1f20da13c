"""The node's own record of its pods: their newest states, what happens to them while Temporal is away, and which are gone.

Below `<state-dir>/away`: a folder for each workflow with its state (`state.py`) and its story (`story.py`), and the tombstones. All is
sealed with the node's payload keys. The worker writes it, after it has locked the node's role; other processes only read
(`reading.py`). States and tombstones are written by one thread: a disk that takes no file is told, and tried again.
"""

import contextlib
import threading
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Self

import structlog

from activities.files.pod_paths import UnsafeName
from proto.temporal.away import StoryEntry
from proto.temporal.pod import PodOutcome
from worker.daemon.troubles import TROUBLES, Troubles
from worker.host.newest_writer import NewestWriter
from worker.stand_in.journal.kept import (
    Kept,
    NotAppended,
    NotKept,
    Place,
    Recovered,
    Start,
    Story,
    Tombstone,
    folder_of,
)
from worker.stand_in.journal.private_folder import PrivateFolder
from worker.stand_in.journal.reading import (
    AWAY,
    MOST_TOMBSTONES,
    MOST_WORKFLOWS,
    RETENTION,
    read_kept,
    story_of,
)
from worker.stand_in.journal.sealed import SealedValues
from worker.stand_in.journal.state import State, captured, digest_of, remove_state, uncaptured, values_of, write_state
from worker.stand_in.journal.story import StoryFile, remove_story
from worker.stand_in.journal.tombstones import Tombstones
from worker.temporal.keys import KeyFile

STATES: Final = "the journal's states of pods"
STORIES: Final = "the journal's stories of pods"
GATHER: Final = 0.1
"""Seconds in which states of one workflow become one write."""
FIRST_STATE_WITHIN: Final = timedelta(seconds=10)
"""How long the first entry of a pod waits for its state."""

_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Work:
    """What the thread is to do for one workflow: first bury, then keep."""

    state: State | None = None
    tombstone: Tombstone | None = None


def merged(before: Work, after: Work) -> Work:
    """Return what is still to do: a newer state replaces an older one, and a burial makes it needless."""
    return after if after.tombstone else replace(before, state=after.state)


@dataclass(slots=True)
class Known:
    """What this process knows of one workflow in the journal."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while its files are written."""
    written: bytes = b""
    """The digest of the state in the file."""
    folded: int = 0
    """Entries up to this position are in a state; never falls."""
    newest: State | None = None
    """None: it was not kept by this process."""
    recovered: Kept | None = None
    """It was there when the process started, and was not kept since."""
    story: StoryFile | None = None


class Journal:
    """The journal of one node; may be called from any thread."""

    def __init__(
        self,
        state_dir: Path,
        keys: KeyFile,
        *,
        retention: timedelta = RETENTION,
        troubles: Troubles = TROUBLES,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Take the folder of tempolet's own files, and the payload keys, which no other thread uses."""
        self._path = state_dir / AWAY
        self._sealing = SealedValues(keys)
        self._tombstones = Tombstones(self._sealing, retention, MOST_TOMBSTONES)
        self._troubles = troubles
        self._now = now
        self._lock = threading.Lock()
        """For what follows."""
        self._known: dict[str, Known] = {}
        """By workflow id."""
        self._unreadable: tuple[str, ...] = ()
        """Folders that were left out at the start."""
        self._writer = NewestWriter[Work](STATES, self._do, merge=merged, gather=GATHER, troubles=troubles)

    def __enter__(self) -> Self:
        self._writer.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.__exit__()

    def read_all(self) -> Recovered:
        """Read everything, once, before anything is written; blocks on files and never raises.

        What is damaged or not ours is left out, and logged. A burial that was interrupted is completed.
        """
        try:
            with PrivateFolder.open(self._path) as away:
                self._tombstones.read(away, self._now())
                kept, unreadable = read_kept(away, self._sealing)
        except FileNotFoundError:
            return Recovered()
        except OSError as error:
            _log.warning("the journal of pods cannot be read", path=str(self._path), err=str(error))
            return Recovered()
        gone = dict(self._tombstones.gone)
        for one, digest in kept:
            is_gone = one.workflow_id in gone
            recovered = None if is_gone else one
            self._known[one.workflow_id] = Known(written=digest, folded=one.folded, recovered=recovered)
            if is_gone:
                self._writer.put(one.workflow_id, Work(tombstone=gone[one.workflow_id]))
        self._unreadable = unreadable
        living = tuple(one for one, _ in kept if one.workflow_id not in gone)
        return Recovered(living, gone, unreadable)

    def keep(self, workflow_id: str, start: Start, place: Place, *, folded: int = 0) -> None:
        """Keep what the workflow's next run would be started with; returns before it is written, and never raises.

        `folded`: the position up to which the entries of its story are in this state.
        """
        try:
            known = self._known_of(workflow_id)
            known.folded = max(known.folded, folded)
            known.recovered = None
            known.newest = captured(self._sealing, start, place, known.folded)
            self._writer.put(workflow_id, Work(known.newest))
        except Exception as error:  # noqa: BLE001 - a workflow task must not fail for it
            self._troubles.failed(STATES, f"{workflow_id} is not kept: {type(error).__name__}: {error}")

    def newest(self, workflow_id: str) -> Start | None:
        """Return the newest state of a workflow; None if none is known."""
        with self._lock:
            known = self._known.get(workflow_id)
        if known is None or known.newest is None:
            return known.recovered.start if known and known.recovered else None
        return uncaptured(self._sealing, known.newest)

    def behaviour(self, workflow_id: str) -> int | None:
        """Return the number that a workflow follows, without reading the rest of its state; None if none is known."""
        with self._lock:
            known = self._known.get(workflow_id)
        found = known and (known.newest or known.recovered)
        return found.start.behaviour if found else None

    def places(self) -> dict[str, Place]:
        """Return where each workflow was whose state is known."""
        with self._lock:
            places = {one: known.newest or known.recovered for one, known in self._known.items()}
        return {one: found.place for one, found in places.items() if found}

    def workflows(self) -> list[str]:
        """Return the workflows whose state is known."""
        with self._lock:
            return [one for one, known in self._known.items() if known.newest or known.recovered]

    def flush(self, workflow_id: str, timeout: timedelta) -> bool:
        """Wait until the newest state or tombstone of a workflow is on disk; returns whether it is. Blocks."""
        if not self._name_of(workflow_id) or not self._writer.flush(workflow_id, timeout.total_seconds()):
            return False
        try:
            with self._folder(workflow_id) as folder:
                folder.sync()  # the file's name
        except FileNotFoundError:
            return True  # there is none, or a tombstone in its place
        except OSError:
            return False
        return True

    def append(self, workflow_id: str, entry: StoryEntry, *, batched: bool = False) -> int:
        """Append an entry to a pod's story; returns its position once it is on disk. Blocks; raises NotAppended.

        `batched`: it may get there with the next entry that is not. An entry for which there is no room is only counted. The
        first entry waits until a state is on disk, without which none could be recovered.
        """
        try:
            known = self._known_of(workflow_id)
            self._await_first_state(workflow_id, known)
            with known.lock, self._folder(workflow_id, make=True) as folder:
                if known.story is None:
                    known.story = StoryFile(self._sealing, workflow_id, above=known.folded)
                position = known.story.append(folder, entry, synced=not batched)
        except NotKept as error:
            raise NotAppended(str(error)) from error
        except OSError as error:
            self._troubles.failed(STORIES, error)
            raise NotAppended(f"the disk did not take it: {error}") from error
        self._troubles.works(STORIES)
        return position

    def _await_first_state(self, workflow_id: str, known: Known) -> None:
        if not known.written and not (self.flush(workflow_id, FIRST_STATE_WITHIN) and known.written):
            raise NotKept(f"no state of {workflow_id} is on disk, which its story would follow")

    def entries(self, workflow_id: str, after: int = 0) -> Story:
        """Read a pod's story after a position; blocks on files and never raises. What is damaged is left out, and logged."""
        return story_of(self._path, self._sealing, workflow_id, after)

    def end_story(self, workflow_id: str, position: int) -> bool:
        """Remove a story that is told up to this position; returns whether it had no later entry. Blocks; raises OSError."""
        known = self._known_of(workflow_id)
        with known.lock:
            known.folded = max(known.folded, position)
            if known.story is None:
                known.story = StoryFile(self._sealing, workflow_id, above=known.folded)
            with contextlib.suppress(FileNotFoundError), self._folder(workflow_id) as folder:
                return known.story.end(folder, position)
        return True

    def forget(self, workflow_id: str, outcome: PodOutcome | None = None) -> None:
        """Remove a workflow that is closed, with its story, and keep a tombstone; returns before that is written."""
        with contextlib.suppress(ValueError, UnsafeName):
            tombstone = Tombstone(folder_of(workflow_id), workflow_id, self._now(), outcome)
            if known := self._known.get(workflow_id):
                known.newest = known.recovered = None
            self._writer.put(workflow_id, Work(tombstone=tombstone))

    def forget_others(self, open_workflows: Collection[str]) -> None:
        """Remove what was there at the start and has closed since: what is not among these, and was not kept meanwhile. Blocks."""
        with self._lock:
            closed = [one for one, known in self._known.items() if known.recovered and one not in open_workflows]
            of_known = {folder_of(one) for one in self._known}
            unreadable, self._unreadable = self._unreadable, ()
        for workflow_id in closed:
            self.forget(workflow_id)
        of_open = {name for one in open_workflows if (name := self._name_of(one))}
        for name in unreadable:
            if name not in of_known | of_open:
                self._remove(name)

    def tombstone(self, workflow_id: str) -> Tombstone | None:
        """Return how a pod ended, once that is written; None for one that lives, or that nothing is known of."""
        return self._tombstones.gone.get(workflow_id)

    # --- the thread's part

    def _do(self, workflow_id: str, work: Work) -> None:
        """Write what waits for one workflow; raises OSError."""
        if work.tombstone:
            self._bury(workflow_id, work.tombstone)
        if work.state:
            self._write(workflow_id, work.state)

    def _bury(self, workflow_id: str, tombstone: Tombstone) -> None:
        if self._tombstones.gone.get(workflow_id) != tombstone:
            with PrivateFolder.open(self._path, make=True) as away:
                self._tombstones.add(away, tombstone, self._now())
        with self._lock:
            known = self._known.pop(workflow_id, None) or Known()
        with known.lock:
            self._remove(folder_of(workflow_id))

    def _write(self, workflow_id: str, state: State) -> None:
        known = self._known_of(workflow_id)
        values = values_of(self._sealing, state)
        digest = digest_of(self._sealing, values)
        if digest == known.written:
            return
        if was := self._tombstones.gone.get(workflow_id):
            with PrivateFolder.open(self._path, make=True) as away:
                self._tombstones.add(away, replace(was, lives_again=True), self._now())
        with self._folder(workflow_id, make=True) as folder:
            write_state(folder, self._sealing, workflow_id, values)
        known.written, known.folded = digest, max(known.folded, state.folded)

    # --- folders

    def _known_of(self, workflow_id: str) -> Known:
        """Return what is known of a workflow; raises NotKept if it cannot be in the journal."""
        with self._lock:
            known = self._known.get(workflow_id)
            if known is None:
                if not self._name_of(workflow_id):
                    raise NotKept(f"{workflow_id!r} is no workflow that has a folder")
                if len(self._known) >= MOST_WORKFLOWS:
                    raise NotKept(f"the journal has {MOST_WORKFLOWS} workflows, and no room for {workflow_id}")
                known = self._known[workflow_id] = Known()
            return known

    @staticmethod
    def _name_of(workflow_id: str) -> str:
        with contextlib.suppress(ValueError, UnsafeName):
            return folder_of(workflow_id)
        return ""

    @contextlib.contextmanager
    def _folder(self, workflow_id: str, *, make: bool = False) -> Iterator[PrivateFolder]:
        with (
            PrivateFolder.open(self._path, make=make) as away,
            away.below(folder_of(workflow_id), make=make) as folder,
        ):
            yield folder

    def _remove(self, name: str) -> None:
        """Remove a workflow's folder; what is not the journal's in it stays, and is told."""
        try:
            with PrivateFolder.open(self._path) as away:
                with away.below(name) as folder:
                    remove_state(folder)
                    remove_story(folder)
                away.remove_folder(name)
        except FileNotFoundError:
            return
        except OSError as error:
            _log.warning("a folder of the journal cannot be removed", path=str(self._path / name), err=str(error))
