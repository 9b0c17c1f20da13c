"""Does the kernel of this machine wake the judge when memory gets short?"""

import asyncio
import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from activities.machine.cgroup_hierarchies import Hierarchies
from proto.temporal.eviction.thresholds import Signal
from tests.patience import PATIENCE
from worker.host.pressure import memory_notices as module
from worker.host.pressure.memory_notices import (
    REFRESHED,
    STALLED,
    NoNotices,
    StallNotices,
    UsageNotices,
    memory_notices,
)

MI = 1 << 20
NOW = datetime(2026, 4, 2, tzinfo=UTC)
V1 = Hierarchies.of_this_node().v1.get("memory")
FILL = "import sys; open(sys.argv[1] + '/cgroup.procs', 'w').write('0'); held = bytearray(32 << 20); print('full', flush=True); sys.stdin.read()"
needs_v1 = pytest.mark.skipif(V1 is None or os.geteuid() != 0, reason="needs root and cgroup v1")
needs_psi = pytest.mark.skipif(not STALLED.exists() or os.geteuid() != 0, reason="needs root and a kernel with PSI")


@pytest.fixture
def cgroup(tmp_path: Path) -> Iterator[Path]:
    """Make a cgroup of memory."""
    assert V1 is not None
    made = V1 / f"notices-{os.getpid()}-{tmp_path.name[-20:]}"
    made.mkdir()
    yield made
    made.rmdir()


def fill(cgroup: Path) -> "subprocess.Popen[bytes]":
    """Start a process that holds 32 MiB there."""
    code = [sys.executable, "-S", "-c", FILL, str(cgroup)]
    started = subprocess.Popen(code, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert started.stdout
    assert started.stdout.readline() == b"full\n"
    return started


async def heard(notices: UsageNotices | StallNotices) -> None:
    """Wait for a word of the kernel."""
    async with asyncio.timeout(PATIENCE):
        await notices.woken.wait()
    notices.woken.clear()


@needs_v1
async def test_a_usage_is_notified_up_and_down(cgroup: Path) -> None:
    """Of the pods' cgroup alone; the machine's own passes no petabyte."""
    assert V1 is not None
    notices = UsageNotices(V1, f"/{cgroup.name}")
    notices.set_at({Signal.MEMORY: (1 << 50,), Signal.ALLOCATABLE_MEMORY: (16 * MI,)}, NOW)
    try:
        await asyncio.sleep(0.05)
        assert not notices.woken.is_set()
        with fill(cgroup) as filler:
            await heard(notices)
            filler.communicate()
        await heard(notices)
    finally:
        notices.close()


@needs_v1
async def test_a_usage_is_set_anew_and_the_old_one_forgotten(cgroup: Path) -> None:
    """But not at each round."""
    assert V1 is not None
    notices = UsageNotices(V1, f"/{cgroup.name}")
    try:
        notices.set_at({Signal.ALLOCATABLE_MEMORY: (16 * MI,)}, NOW)
        notices.set_at({Signal.ALLOCATABLE_MEMORY: (1 << 50,)}, NOW + REFRESHED - timedelta(seconds=1))  # too early
        with fill(cgroup) as filler:
            await heard(notices)
            notices.set_at({Signal.ALLOCATABLE_MEMORY: (1 << 50,)}, NOW + REFRESHED)
            filler.communicate()
        await asyncio.sleep(0.05)
        assert not notices.woken.is_set()
    finally:
        notices.close()
    assert notices._open == []


@needs_v1
async def test_a_cgroup_that_is_missing_is_said_once(cgroup: Path) -> None:
    """And tried again: the pods' cgroup may come later."""
    notices = UsageNotices(cgroup, "/pods")
    with capture_logs() as said:
        for turn in range(3):
            notices.set_at({Signal.ALLOCATABLE_MEMORY: (16 * MI,)}, NOW + turn * REFRESHED)
        assert len(said) == 1
        (cgroup / "pods").mkdir()
        notices.set_at({Signal.ALLOCATABLE_MEMORY: (16 * MI,)}, NOW + 3 * REFRESHED)
    try:
        assert len(said) == 1
        with fill(cgroup / "pods") as filler:
            await heard(notices)
            filler.communicate()
    finally:
        notices.close()
        (cgroup / "pods").rmdir()


@needs_v1
@needs_psi
async def test_a_stall_is_notified(cgroup: Path, tmp_path: Path) -> None:
    """Processes that wait for memory wake the judge, each time anew."""
    (cgroup / "memory.limit_in_bytes").write_text(str(12 * MI))
    notices = StallNotices()
    with _thrashing(cgroup, tmp_path) as thrashing:
        try:
            await heard(notices)
            await heard(notices)
        finally:
            notices.close()
            thrashing.kill()


@pytest.mark.parametrize("wanted", [True, False])
async def test_a_kernel_that_cannot_is_said_and_no_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, wanted: bool
) -> None:
    """Memory is measured as before."""
    monkeypatch.setattr(StallNotices.__init__, "__defaults__", (tmp_path / "missing",))
    with (
        capture_logs() as said,
        memory_notices(Hierarchies(v2=tmp_path, v1={}), "/pods", wanted=wanted) as notices,
    ):
        assert isinstance(notices, NoNotices)
        notices.set_at({Signal.MEMORY: (1,)}, NOW)
    assert len(said) == wanted


async def test_which_kind_a_machine_has(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By its version of cgroups."""
    made: list[object] = []

    def usage_notices(*given: object) -> NoNotices:
        made.append(given)
        return NoNotices()

    monkeypatch.setattr(module, "UsageNotices", usage_notices)
    with memory_notices(Hierarchies(v2=None, v1={"memory": tmp_path}), "/pods", wanted=True):
        assert made == [(tmp_path, "/pods")]


def _thrashing(cgroup: Path, folder: Path) -> "subprocess.Popen[bytes]":
    """Start processes that read a file again and again which is larger than their memory."""
    file = folder / "large"
    with file.open("wb") as written:
        written.write(bytes(64 * MI))
        os.fsync(written.fileno())
        os.posix_fadvise(
            written.fileno(), 0, 0, os.POSIX_FADV_DONTNEED
        )  # cached pages would be this process's, not theirs
    code = (
        "import sys, mmap; open(sys.argv[1] + '/cgroup.procs', 'w').write('0'); f = open(sys.argv[2], 'rb');"
        "m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)\n"
        f"while True: sum(m[at] for at in range(0, len(m), {mmap.PAGESIZE}))"
    )
    return subprocess.Popen([sys.executable, "-S", "-c", code, str(cgroup), str(file)])
