"""Does the node tell once that its machine is out of memory, whatever is written into the kernel's log?"""

import asyncio
import contextlib
import errno
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from activities.machine.cgroup_hierarchies import Hierarchies
from tests.patience import PATIENCE
from worker.host.pressure.kernel_log import BATCH, GATHERED, open_kernel_log, records
from worker.host.pressure.oom_watch import FILE_NAME, OomWatch
from workflows.decide.node.oom_kills import OomKill, Report, follow, kernel_record

START = "a invoked oom-killer: gfp_mask=0x201da, order=0, oom_score_adj=0"


class Log:
    """A kernel's log: each write is a record."""

    def __init__(self) -> None:
        self._read, self._write = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._read.setblocking(False)
        self._next = 0

    def open(self, _: Path) -> int:
        """Return a descriptor that the watch may close."""
        return os.dup(self._read.fileno())

    def write(self, *texts: str, facility: int = 0) -> None:
        """Append records."""
        for text in texts:
            self._write.send(f"{facility << 3 | 4},{self._next},1,-;{text}\n".encode())
            self._next += 1

    def rewind(self) -> None:
        """Begin again: it is read from its oldest record by each who opens it."""
        self._next = 0

    def close(self) -> None:
        """End it."""
        self._read.close()
        self._write.close()


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    """Put a log in the place of the kernel's."""
    made = Log()
    monkeypatch.setattr("worker.host.pressure.oom_watch.open_kernel_log", made.open)
    with contextlib.closing(made):
        yield made


def killed(pid: int) -> tuple[str, str]:
    """Return the records of a machine out of memory."""
    return START, f"Out of memory: Killed process {pid} (hog) total-vm:1kB"


def told(pid: int) -> tuple[str, str, str]:
    """Return the event of it."""
    return "Warning", "SystemOOM", f"System OOM encountered, victim process: hog, pid: {pid}"


async def watched(tmp_path: Path, until: Callable[[list[tuple[str, str, str]]], bool]) -> list[tuple[str, str, str]]:
    """Watch until the events are so; returns them."""
    events: list[tuple[str, str, str]] = []
    changed = asyncio.Event()

    def tell(*event: str) -> None:
        events.append((event[0], event[1], event[2]))
        changed.set()

    task = asyncio.create_task(OomWatch(tmp_path, tell).run())
    async with asyncio.timeout(PATIENCE):
        while not until(events):
            await changed.wait()
            changed.clear()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return events


async def test_each_is_told_once(log: Log, tmp_path: Path) -> None:
    """Those of before the start, too, and none again after a restart, although the log still has them."""
    log.write("eth0: link up", *killed(1), "x", *killed(2))
    assert await watched(tmp_path, lambda found: len(found) == 2) == [told(1), told(2)]  # the first one is kept by now
    log.rewind()
    log.write("eth0: link up", *killed(1), *["x"] * 9, *killed(3))
    assert await watched(tmp_path, bool) == [told(3)]


@pytest.mark.parametrize("kept", [b"", b"[]", b'{"boot": "another", "told": 99}', b'{"boot": 1'])
async def test_what_is_kept_of_another_boot_or_damaged_counts_for_nothing(
    log: Log, tmp_path: Path, kept: bytes
) -> None:
    """Numbers begin anew at a boot."""
    (tmp_path / FILE_NAME).write_bytes(kept)
    log.write(*killed(1))
    assert await watched(tmp_path, bool) == [told(1)]


async def test_processes_are_not_believed(log: Log, tmp_path: Path) -> None:
    """Root in a pod may write to the log; its records have another facility."""
    log.write(*killed(1), facility=1)
    log.write(START, "Memory cgroup out of memory: Killed process 2 (hog) total-vm:1kB", *killed(3))
    assert await watched(tmp_path, bool) == [told(3)]


async def test_an_event_survives_a_full_disk(log: Log, tmp_path: Path) -> None:
    """It may be told again then."""
    (tmp_path / FILE_NAME).mkdir()
    log.write(*killed(1), *killed(2))
    assert await watched(tmp_path, lambda found: len(found) == 2) == [told(1), told(2)]


@pytest.mark.parametrize("place", ["missing", "/dev/null"])
async def test_a_machine_without_a_log_is_said_once(tmp_path: Path, place: str) -> None:
    """In a container there is none, or something else in its place."""
    with capture_logs() as said:
        await OomWatch(tmp_path, lambda *_: None, tmp_path / place).run()
    assert len(said) == 1
    assert "can't be read" in said[0]["event"]


async def test_a_flood_is_read_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what was overwritten is passed over, without an end to the pauses between."""
    reads = 0

    def overwritten(_: int, size: int) -> bytes:
        nonlocal reads
        reads += 1
        if reads % 2:
            raise BrokenPipeError(errno.EPIPE, "overwritten")
        return b"6,1,1,-;x"[:size]

    pauses: list[int] = []

    async def pause(_: float) -> None:
        pauses.append(reads)
        if len(pauses) == 3:
            raise asyncio.CancelledError

    monkeypatch.setattr(asyncio, "sleep", pause)
    with pytest.raises(asyncio.CancelledError):
        async for _ in records(0, overwritten):
            pass
    assert pauses == [BATCH, 2 * BATCH, 3 * BATCH]


async def test_records_gather(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """One wake for all that come soon after each other."""
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        log.write("b", "c")

    monkeypatch.setattr(asyncio, "sleep", pause)
    found: list[bytes] = []
    descriptor = log.open(Path())
    asyncio.get_running_loop().call_later(0.05, log.write, "a")
    try:
        async with contextlib.aclosing(records(descriptor)) as read:
            async for record in read:
                found.append(record[-2:-1])
                if len(found) == 3:
                    break
    finally:
        os.close(descriptor)
    assert (found, pauses) == ([b"a", b"b", b"c"], [GATHERED])


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes a cgroup and reads the kernel's log")
async def test_a_real_kill_in_a_cgroup(tmp_path: Path) -> None:
    """The kernel's own words of today: the cgroup, and the process; and a process that writes the same is not believed."""
    cgroup = _small_cgroup(tmp_path.name)
    log = open_kernel_log()
    try:
        os.lseek(log, 0, os.SEEK_END)
        _written_by_a_process(START, "Out of memory: Killed process 1 (init) total-vm:1kB")
        hog = _hog(cgroup)
        *others, kill = await _kills_until(log, lambda one: one.short_of.endswith(f"/{cgroup.name}"))
    finally:
        os.close(log)
        cgroup.rmdir()
    assert (kill.pid, kill.process, kill.of_the_system) == (hog, "python3-hog", False)
    assert 1 not in [one.pid for one in others]


def _written_by_a_process(*texts: str) -> None:
    for text in texts:
        Path("/dev/kmsg").write_text(f"<4>{text}")


async def _kills_until(log: int, is_last: Callable[[OomKill], bool]) -> list[OomKill]:
    """Return the kills of the whole machine: other cgroups, also of other tests, may run out of memory meanwhile."""
    kills: list[OomKill] = []
    report: Report | None = None
    async with asyncio.timeout(PATIENCE), contextlib.aclosing(records(log)) as found:
        async for raw in found:
            if record := kernel_record(raw):
                report, kill = follow(report, record.text)
                if kill:
                    kills.append(kill)
                    if is_last(kill):
                        return kills
    raise AssertionError("the log has ended")


def _small_cgroup(name: str) -> Path:
    found = Hierarchies.of_this_node()
    top = found.v2 or found.v1["memory"]
    made = top / f"oom-{os.getpid()}-{name[-20:]}"
    made.mkdir()
    (made / ("memory.max" if found.v2 else "memory.limit_in_bytes")).write_text(str(24 << 20))
    return made


def _hog(cgroup: Path) -> int:
    """Run a process that takes more memory than its cgroup has; returns its id."""
    code = f"open('/proc/self/comm', 'w').write('python3-hog'); open('{cgroup}/cgroup.procs', 'w').write('0'); bytearray(64 << 20)"
    ran = subprocess.Popen([sys.executable, "-S", "-c", code])
    assert ran.wait(PATIENCE) == -9
    return ran.pid
