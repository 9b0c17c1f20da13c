"""Reads a container's log as `kubectl logs` shows it: tail, since a time, up to a number of bytes, following.

Used by `tempolet logs` and by the node's API. The rules are the kubelet's (cri-client/pkg/logs ReadLogs): only the
newest file is read, not rotated ones; a tail counts entries, so a long line that was written in pieces counts more
than once; a byte limit counts what is shown. While following, the kubelet loses what was written to the old file
between its last read and a rotation; here that is read first.
"""

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import BinaryIO, Final, Protocol

from activities.logs.lines import LogLine, Stream, nanoseconds, parse_line
from activities.logs.log_files import ContainerLog

_BLOCK: Final = 64 * 1024
_LONGEST: Final = 1 << 20
"""Bytes of one entry that are shown; runtimes write 16 KiB, and no line may fill our memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """What part of a log is requested; the API's PodLogOptions. None: no limit."""

    tail_lines: int | None = None
    since: datetime | None = None
    """With a time zone; earlier entries are left out."""
    timestamps: bool = False
    limit_bytes: int | None = None
    streams: frozenset[Stream] = frozenset(Stream)


class Following(Protocol):
    """Waits for more of a log, in a thread of its own."""

    def running(self) -> bool:
        """Report whether the container may write more."""

    def wait(self) -> None:
        """Return when the log may have grown, after at most a second."""


@dataclass(slots=True)
class _Shown:
    """Selects and formats lines until the limit is reached."""

    options: LogOptions
    left: int | None = None
    new_line: bool = True
    full: bool = False

    def show(self, line: LogLine) -> tuple[Stream, bytes] | None:
        """Return what is shown of an entry; None: nothing."""
        options, begins = self.options, self.new_line
        self.new_line = not line.text or line.text.endswith(b"\n")
        if line.stream not in options.streams or (options.since is not None and not _since(line, options.since)):
            return None
        text = b" ".join((line.timestamp, line.text)) if options.timestamps and begins else line.text
        if self.left is not None:
            text = text[: self.left]
            self.left -= len(text)
            self.full = self.left <= 0
        return line.stream, text


@dataclass(slots=True)
class _Entries:
    """The entries of a log file that may grow and be replaced by a new one."""

    log: ContainerLog
    file: BinaryIO
    stack: ExitStack
    cut: bytes = b""
    """The beginning of an entry that is not complete yet."""
    skipping: bool = False
    running: Callable[[], bool] | None = None
    """Whether the container may write more; None: read only what is there."""

    def __iter__(self) -> Iterator[bytes | None]:
        """Yield complete entries, None when there is nothing more for now, and at the end an incomplete one."""
        last_look = False
        newer: BinaryIO | None = None
        while True:
            yield from self._written()
            if newer is not None:
                self.file, newer, self.cut = newer, None, b""
            elif self.running is None or last_look:
                break
            elif (newer := self._newer()) is None:
                if self.running():
                    yield None
                else:
                    last_look = True  # what it wrote between our read and its end
        if self.cut and not self.skipping:
            yield self.cut

    def _written(self) -> Iterator[bytes]:
        """Yield the entries up to the present end of the file."""
        while piece := self.file.readline(_LONGEST - len(self.cut)):
            whole = piece.endswith(b"\n")
            entry, self.cut = self.cut + piece, b""
            if self.skipping:
                self.skipping = not whole
            elif whole or len(entry) >= _LONGEST:
                self.skipping = not whole
                yield entry if whole else entry + b"\n"
            else:
                self.cut = entry

    def _newer(self) -> BinaryIO | None:
        """Open the file that has replaced this one, if there is one."""
        try:
            file = self.log.open()
        except FileNotFoundError:
            return None  # it is being rotated, or removed
        if os.path.sameopenfile(file.fileno(), self.file.fileno()):
            file.close()
            return None
        return self.stack.enter_context(file)


def read_log(
    log: ContainerLog, options: LogOptions, following: Following | None = None
) -> Iterator[tuple[Stream, bytes]]:
    """Yield the requested part of a log in pieces; blocks on files and on `following`.

    Raises FileNotFoundError, ForeignFile or another OSError, at the first piece.
    """
    if following is None:
        yield from filter(None, log_pieces(log, options))
        return
    for piece in log_pieces(log, options, following.running):
        if piece is None:
            following.wait()
        else:
            yield piece


def log_pieces(
    log: ContainerLog, options: LogOptions, running: Callable[[], bool] | None = None
) -> Generator[tuple[Stream, bytes] | None, None, None]:
    """Yield the requested part of a log in pieces, and None when there is nothing more for now; blocks on files only.

    With `running` the log is followed until that returns False. Closing it early closes its files. Raises as
    `read_log` does.
    """
    shown = _Shown(options, options.limit_bytes)
    count = options.tail_lines if running is None else None
    with ExitStack() as stack:
        file = stack.enter_context(log.open())
        file.seek(tail_start(file, options.tail_lines))
        if count == 0:
            return
        for entry in _Entries(log, file, stack, running=running):
            if entry is None:
                yield None
                continue
            line = parse_line(entry)
            if line is None:
                continue
            if (text := shown.show(line)) is not None:
                yield text
            if count is not None:
                count -= 1
            if shown.full or count == 0:
                return


def _since(line: LogLine, moment: datetime) -> bool:
    try:
        return line.at >= nanoseconds(moment)
    except ValueError:  # an impossible date: the entry is damaged
        return False


def tail_start(file: BinaryIO, entries: int | None) -> int:
    """Return the byte where the last entries of a file begin; an entry without a newline is not counted."""
    if entries is None:
        return 0
    position = file.seek(0, os.SEEK_END)
    newlines = entries + 1
    while position > 0:
        begin = max(0, position - _BLOCK)
        file.seek(begin)
        block = file.read(position - begin)
        found = block.count(b"\n")
        if found >= newlines:
            at = len(block)
            for _ in range(newlines):
                at = block.rindex(b"\n", 0, at)
            return begin + at + 1
        newlines -= found
        position = begin
    return 0
