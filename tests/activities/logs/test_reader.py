"""Is a log read as `kubectl logs` shows it, also while it grows, is rotated, or was tampered with?"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from activities.files.pod_paths import PodPaths
from activities.logs.lines import Stream, parse_line
from activities.logs.log_files import ContainerLog, ForeignFile
from activities.logs.reader import LogOptions, read_log
from proto.temporal.pod import PodKey

LOG = b"""\
2026-11-21T12:00:01.1Z stdout F one
2026-11-21T12:00:02.123456789Z stderr F two
2026-11-21T12:00:03Z stdout P three,
2026-11-21T12:00:03.5Z stdout F  and more
2026-11-21T12:00:04+01:00 stdout F:x four
"""


@pytest.fixture
def log(tmp_path: Path) -> ContainerLog:
    """Return a log of five entries."""
    found = ContainerLog(PodPaths(tmp_path, tmp_path / "logs", PodKey("default", "web", "u-1")), "main", 2)
    found.path.parent.mkdir(parents=True)
    found.path.write_bytes(LOG)
    return found


def shown(log: ContainerLog, **options: Any) -> bytes:
    """Read it to its end."""
    return b"".join(text for _, text in read_log(log, LogOptions(**options)))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        pytest.param({}, b"one\ntwo\nthree, and more\nfour\n", id="all"),
        pytest.param({"tail_lines": 1}, b"four\n", id="the-last-line"),
        pytest.param({"tail_lines": 2}, b" and more\nfour\n", id="a-tail-counts-pieces"),
        pytest.param({"tail_lines": 99}, b"one\ntwo\nthree, and more\nfour\n", id="a-tail-longer-than-all"),
        pytest.param({"tail_lines": 0}, b"", id="no-tail"),
        pytest.param({"limit_bytes": 6}, b"one\ntw", id="a-limit-cuts"),
        pytest.param({"limit_bytes": 6, "tail_lines": 1}, b"four\n", id="a-limit-of-a-tail"),
        pytest.param(
            {"since": datetime(2026, 11, 21, 12, 0, 3, tzinfo=UTC)}, b"three, and more\n", id="since-knows-zones"
        ),
        pytest.param({"streams": frozenset({Stream.STDERR})}, b"two\n", id="one-stream"),
        pytest.param(
            {"streams": frozenset({Stream.STDERR}), "limit_bytes": 2}, b"tw", id="what-is-not-asked-for-is-not-counted"
        ),
        pytest.param(
            {"timestamps": True},
            b"2026-11-21T12:00:01.100000000Z one\n2026-11-21T12:00:02.123456789Z two\n"
            b"2026-11-21T12:00:03.000000000Z three, and more\n2026-11-21T12:00:04.000000000+01:00 four\n",
            id="times-stand-before-whole-lines",
        ),
    ],
)
def test_what_is_asked_for(log: ContainerLog, options: dict[str, Any], text: bytes) -> None:
    """The rules of ReadLogs."""
    assert shown(log, **options) == text


@pytest.mark.parametrize(
    ("added", "text"),
    [
        pytest.param(b"2026-11-21T12:00:05Z stdout F five", b"five", id="an-unfinished-line-is-shown"),
        pytest.param(b"2026-11-21T12:0", b"", id="half-a-time-is-not"),
        pytest.param(b"no log at all\n", b"", id="nobodys-words"),
        pytest.param(b"2026-11-21T12:00:05Z stdwhat F five\n", b"", id="an-unknown-stream"),
        pytest.param(b"2026-11-21T12:00:05Z stdout F \n", b"\n", id="an-empty-line"),
        pytest.param(b"2026-11-21T12:00:05Z stdout F a\rb\x00\xff\n", b"a\rb\x00\xff\n", id="any-bytes"),
        pytest.param(b"x" * (1 << 21) + b"\n2026-11-21T12:00:05Z stdout F five\n", b"five\n", id="an-endless-line"),
        pytest.param(b"2026-99-99T12:00:05Z stdout F five\n", b"five\n", id="no-such-day"),
    ],
)
def test_what_a_broken_log_shows(log: ContainerLog, added: bytes, text: bytes) -> None:
    """Whatever a runtime left that died while it wrote, or somebody else put there."""
    log.path.write_bytes(LOG + added)
    assert shown(log) == b"one\ntwo\nthree, and more\nfour\n" + text
    shown(log, since=datetime(2026, 1, 1, tzinfo=UTC))


def test_a_line_that_is_too_long_is_cut(log: ContainerLog) -> None:
    """A megabyte of it is shown, then the next one."""
    log.path.write_bytes(b"2026-11-21T12:00:05Z stdout F " + b"y" * (3 << 20) + b"\n" + LOG)
    first, second, *_ = read_log(log, LogOptions())
    assert len(first[1]) <= (1 << 20) + 1
    assert second[1] == b"one\n"


def test_a_tail_longer_than_a_block(log: ContainerLog) -> None:
    """Newlines are counted over block borders."""
    lines = [b"2026-11-21T12:00:05Z stdout F %d %s\n" % (number, b"z" * 3000) for number in range(100)]
    log.path.write_bytes(b"".join(lines))
    assert shown(log, tail_lines=70).splitlines()[0].startswith(b"30 ")


@dataclass
class Script:
    """Waits by doing one thing after the other; the container has ended when nothing is left."""

    steps: list[Callable[[], Any]] = field(default_factory=list)
    ended: bool = False

    def running(self) -> bool:
        """Return whether more output may follow."""
        return not self.ended

    def wait(self) -> None:
        """Do the next thing."""
        if self.steps:
            self.steps.pop(0)()
        else:
            self.ended = True


def append(log: ContainerLog, text: bytes, path: Path | None = None) -> None:
    """Write as the runtime does."""
    with (path or log.path).open("ab") as file:
        file.write(text)


def followed(log: ContainerLog, script: Script, **options: Any) -> list[bytes]:
    """Follow until the script ends."""
    return [text for _, text in read_log(log, LogOptions(**options), script)]


def test_a_log_is_followed_to_the_containers_end(log: ContainerLog) -> None:
    """What is unfinished at one look is a line at the next."""
    script = Script([lambda: append(log, b"2026-11-21T12:00:05Z std"), lambda: append(log, b"out F five\n")])
    assert followed(log, script, tail_lines=1) == [b"four\n", b"five\n"]


def test_what_was_written_between_the_last_look_and_the_end_is_read(log: ContainerLog) -> None:
    """The container ends right after its last word."""
    script = Script()

    def ends() -> None:
        append(log, b"2026-11-21T12:00:05Z stdout F last\n")
        script.ended = True

    script.steps = [ends]
    assert followed(log, script, tail_lines=0) == [b"last\n"]


def test_a_rotation_is_followed_and_nothing_is_lost(log: ContainerLog) -> None:
    """The rest of the old file first, then the new one; also while there is none for a moment."""
    old = log.path.with_name("2.log.20261121-120410")

    def rotated() -> None:
        append(log, b"2026-11-21T12:00:06Z stdout F new\n")
        append(log, b"2026-11-21T12:00:05Z stdout F old\n", old)

    script = Script([lambda: log.path.rename(old), rotated])
    assert followed(log, script, tail_lines=0) == [b"old\n", b"new\n"]


def test_a_log_replaced_by_a_link_while_followed(log: ContainerLog, tmp_path: Path) -> None:
    """The host's file is not shown."""
    secret = tmp_path / "shadow"
    secret.write_bytes(b"2026-11-21T12:00:05Z stdout F root's\n")

    def replaced() -> None:
        log.path.unlink()
        log.path.symlink_to(secret)

    with pytest.raises(ForeignFile):
        followed(log, Script([replaced]))


def kinds(log: ContainerLog) -> Iterator[Callable[[], Any]]:
    """Put something else in the log's place."""
    host = log.paths.root_dir / "shadow"
    host.write_bytes(LOG)
    yield lambda: log.path.symlink_to(host)
    yield lambda: log.path.hardlink_to(host)
    yield lambda: os.mkfifo(log.path)
    yield log.path.mkdir


@pytest.mark.parametrize("which", range(4), ids=["link", "hard-link", "fifo", "folder"])
def test_what_is_no_log_is_not_read(log: ContainerLog, which: int) -> None:
    """At once, without waiting for a writer."""
    log.path.unlink()
    list(kinds(log))[which]()
    with pytest.raises(ForeignFile):
        shown(log)


def test_the_attempts_that_have_a_log(log: ContainerLog) -> None:
    """Not those that were rotated away, nor a hook's."""
    for name in ("0.log", "10.log", "10.log.20261121-120410", "preStart.3.log"):
        log.path.with_name(name).write_text("")
    assert log.attempts() == [0, 2, 10]


def test_a_time_as_it_was_written() -> None:
    """Nine digits, its own zone."""
    line = parse_line(b"2026-11-21T12:00:04.5-00:00 stdout F x\n")
    assert line is not None
    assert line.timestamp == b"2026-11-21T12:00:04.500000000Z"
