"""The tickets that a node holds: one small file for each workflow, which worker and poller share.

The poller draws a ticket before it starts a workflow; the worker compares each activity with what is held. So a file is written
when a pod begins and when it ends, and each look costs one stat. A file that is damaged counts as absent: the workflow is then
started anew with another ticket.

A ticket is no secret, because nobody without the payload keys can write one into an input or a header. But whoever can write
these files decides what runs here, so they are root's alone.
"""

import contextlib
import json
import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import structlog

from activities.files.atomic_files import write_atomically
from proto.temporal.ticket import UNTICKETED, Ticket
from worker.temporal.private_files import folder_lock, write_new
from worker.tickets.held import Earlier, Held, Verdict

FOLDER: Final = "tickets"
_SUFFIX: Final = ".json"
_INCARNATION_BYTES: Final = 8
_LARGEST_FILE: Final = 64 * 1024
_ABSENT: Final = (0, 0, 0)

_log: Final = structlog.get_logger(__name__)
Version = tuple[int, int, int]


class Tickets:
    """The tickets of one node; used from any thread. What is written is on disk when a method returns.

    `draw`, `raise_epoch`, `know` and `forget` raise OSError.
    """

    def __init__(self, state_dir: Path) -> None:
        self._folder = state_dir / FOLDER
        self._read: dict[str, tuple[str, Version, Held]] = {}
        """By workflow id, its file and what a version of it holds."""

    def of(self, workflow_id: str) -> Ticket | None:
        """Return the ticket of a workflow's next run; None if the workflow is not to run."""
        held = self.held(workflow_id)
        return None if held is None or held.is_over else held.ticket

    def held(self, workflow_id: str) -> Held | None:
        """Return what is held of a workflow; None if nothing is."""
        known = self._read.get(workflow_id)
        if known is not None and _version(known[0]) == known[1]:
            return known[2]
        return self._load(workflow_id)

    def judge(self, workflow_id: str, shown: Ticket, run_id: str) -> Verdict:
        """Judge an activity; the first one that shows a new ticket ends the one before."""
        held = self.held(workflow_id)
        verdict = held.verdict(shown, run_id) if held else Verdict.REFUSED
        if held is not None and held.earlier and verdict is Verdict.PASSES and held.confirmed(shown) != held:
            try:
                self._change(workflow_id, lambda now: now.confirmed(shown))
            except OSError as error:  # tried again with the next activity
                _log.warning("a ticket cannot be written", workflow=workflow_id, err=str(error))
        return verdict

    def draw(self, workflow_id: str) -> Ticket:
        """Return the ticket for the next run of a workflow: the present one, or a new one."""
        while (held := self.held(workflow_id)) is None or held.is_over:
            if held is None:
                self._create(workflow_id, Held(_new()))
            else:
                self._change(workflow_id, lambda now: now.drawn(_new().incarnation))
        return held.ticket

    def raise_epoch(self, workflow_id: str) -> Ticket:
        """Take the lead from a workflow's run; returns the ticket that its next run must have."""
        self.draw(workflow_id)
        raised = self._change(workflow_id, Held.raised)
        if raised is None:
            raise FileNotFoundError(f"the ticket of {workflow_id} was removed meanwhile")
        return raised.ticket

    def complete(self, workflow_id: str, shown: Ticket, run_id: str) -> None:
        """End the life of a workflow whose run completes: its ticket is worth nothing any more.

        A disk that takes no file may still let one be removed. Then a run that goes on after all is refused, and started anew.
        """
        try:
            self._change(workflow_id, lambda now: now.completed(shown, run_id))
        except OSError as error:
            _log.error("the ticket of a pod that is over cannot be written", workflow=workflow_id, err=str(error))
            if self.of(workflow_id) == shown:
                with contextlib.suppress(OSError):
                    self.forget(workflow_id)

    def know(self, workflow_id: str, ticket: Ticket) -> None:
        """Hold what a pod's snapshot says of the ticket of its run."""
        if self.held(workflow_id) is not None:
            self._change(workflow_id, lambda now: now.known_as(ticket))
        elif ticket.incarnation:
            self._create(workflow_id, Held(ticket))
        else:
            self._create(workflow_id, Held(_new(), Earlier(UNTICKETED)))

    def forget(self, workflow_id: str, held: Held | None = None) -> None:
        """Hold nothing of a workflow any more; with `held`, only if that is what is held now."""
        if not self._folder.is_dir():
            return
        with folder_lock(self._folder) as folder:
            if held is None or held == self._load(workflow_id):
                self._file(workflow_id).unlink(missing_ok=True)
                os.fsync(folder)

    def all(self) -> Iterator[tuple[str, Held, float]]:
        """Yield each workflow with what is held of it, and when that was written, in seconds since the epoch."""
        if not self._folder.is_dir():
            return
        for file in sorted(self._folder.glob(f"*{_SUFFIX}")):
            try:
                written_at = file.stat().st_mtime
                workflow_id, held = _parse(_read(file))
            except (OSError, ValueError):
                continue
            yield workflow_id, held, written_at

    def _file(self, workflow_id: str) -> Path:
        name = sha256(workflow_id.encode(errors="surrogatepass")).hexdigest()[:40]
        return self._folder / f"{name}{_SUFFIX}"

    def _load(self, workflow_id: str) -> Held | None:
        file = self._file(workflow_id)
        self._read.pop(workflow_id, None)
        now = _version(str(file))
        if now == _ABSENT:
            return None
        try:
            named, held = _parse(_read(file))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            _log.warning("a ticket cannot be read; it counts as absent", path=str(file), err=str(error))
            return None
        if named != workflow_id:
            return None
        self._read[workflow_id] = str(file), now, held
        return held

    def _create(self, workflow_id: str, held: Held) -> None:
        """Write the file unless there is one; a damaged one is replaced."""
        file = self._file(workflow_id)
        while True:
            try:
                return write_new(file, _text(workflow_id, held))
            except FileExistsError:
                with folder_lock(self._folder):
                    if self._load(workflow_id) is not None:
                        return None
                    file.unlink(missing_ok=True)

    def _change(self, workflow_id: str, change: Callable[[Held], Held]) -> Held | None:
        """Replace what is held; returns it, or None if nothing is."""
        file = self._file(workflow_id)
        if not self._folder.is_dir():
            return None
        with folder_lock(self._folder) as folder:
            before = self._load(workflow_id)
            if before is None or (after := change(before)) == before:
                return before
            write_atomically(file, _text(workflow_id, after).encode())
            os.fsync(folder)
        return after


def _version(path: str) -> Version:
    """Return what changes whenever a file is replaced."""
    try:
        facts = os.stat(path)  # noqa: PTH116 - a third of the time, and done for each activity
    except OSError:
        return _ABSENT
    return facts.st_ino, facts.st_mtime_ns, facts.st_size


def _new() -> Ticket:
    return Ticket(secrets.token_hex(_INCARNATION_BYTES))


def _text(workflow_id: str, held: Held) -> str:
    return json.dumps({"workflow_id": workflow_id, **asdict(held)}) + "\n"


def _read(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(_LARGEST_FILE)


def _parse(data: bytes) -> tuple[str, Held]:
    """Read a file's content; raises ValueError."""
    try:
        said = json.loads(data)
        earlier = said["earlier"]
        held = Held(
            _ticket(said["ticket"]),
            None if earlier is None else Earlier(_ticket(earlier["ticket"]), str(earlier["run_id"])),
        )
        return str(said["workflow_id"]), held
    except (KeyError, TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f"no ticket: {type(error).__name__} {error}") from error


def _ticket(said: Any) -> Ticket:
    return Ticket(str(said["incarnation"]), int(said["epoch"]))
