"""Journals, states and entries for the tests of this folder."""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from proto.temporal.away import EntryKind, StoryEntry
from proto.temporal.pod import ContainerFacts, ContainerState, Observed, PodStart
from tests.patience import PATIENCE
from worker.daemon.troubles import Troubles
from worker.stand_in.journal.journal import Journal
from worker.stand_in.journal.kept import Kept, Place, Story
from worker.temporal.keys import KeyFile, create_key_file

AT: Final = datetime(2026, 11, 23, 12, tzinfo=UTC)
PLACE: Final = Place("namespace-id", "run-1", 17)
SOON: Final = timedelta(seconds=PATIENCE)


def workflow_id(uid: str) -> str:
    """Return the id of the workflow of the pod web with this UID."""
    return f"pod/n/default/web/{uid}"


def start(uid: str = "u1", *, restarts: int = 0, value: str = "plain", **facts: Any) -> PodStart:
    """Build what a run of the pod would be started with; `value` is that of a variable."""
    container = {"name": "c", "image": "busybox:1", "env": [{"name": "A", "value": value}]}
    pod = {"metadata": {"name": "web", "namespace": "default", "uid": uid}, "spec": {"containers": [container]}}
    known = ContainerFacts(attempt=restarts, container_id=f"id-{restarts}", state=ContainerState.RUNNING, started_at=AT)
    return PodStart("n", pod, behaviour=5, observed=Observed(started_at=AT, containers={"c": known}, **facts))


def entry(number: int = 0, value: Any = None, kind: EntryKind = EntryKind.COMPLETED) -> StoryEntry:
    """Build an entry that is recognized by its number."""
    return StoryEntry(AT + timedelta(seconds=number), kind, "StartContainer", f"start/{number}", value)


def keys_of(folder: Path) -> KeyFile:
    """Read the key file in a folder; the first call creates it."""
    create_key_file(folder / "keys")
    return KeyFile(folder / "keys")


@contextlib.contextmanager
def journal_in(folder: Path, **options: Any) -> Iterator[Journal]:
    """Open the journal of a state folder, as the worker does; at the end all is written."""
    with Journal(folder, keys_of(folder), **options) as journal:
        yield journal


def kept_in(folder: Path) -> dict[str, Kept]:
    """Start anew on a state folder; returns what is recovered, by UID."""
    with journal_in(folder) as journal:
        return {one.workflow_id.rpartition("/")[2]: one for one in journal.read_all().kept}


def numbers(story: Story) -> list[int]:
    """Return the positions of a story's entries."""
    return [one.position for one in story.entries]


def with_restarts(before: PodStart, restarts: int) -> PodStart:
    """Return the same pod after so many restarts."""
    assert before.observed is not None
    facts = replace(before.observed.containers["c"], attempt=restarts)
    return replace(before, observed=replace(before.observed, containers={"c": facts}))


class WatchedTroubles(Troubles):
    """Troubles that a test can await."""

    def __init__(self) -> None:
        super().__init__()
        self.told, self.over = threading.Event(), threading.Event()

    def failed(self, part: str, why: BaseException | str) -> None:
        """Record a failure."""
        super().failed(part, why)
        self.over.clear()
        self.told.set()

    def works(self, part: str) -> None:
        """Record that a part works."""
        super().works(part)
        self.over.set()


def folders(state_dir: Path) -> list[str]:
    """List what the journal has of workflows, and its other files."""
    return sorted(one.name for one in (state_dir / "away").iterdir())
