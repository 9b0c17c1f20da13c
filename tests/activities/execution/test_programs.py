"""Does a program end at its deadline with all its children, and does the error for a missing one name the package?"""

import asyncio
import os
import select
import signal
from pathlib import Path

import pytest

from activities.execution.programs import ProgramMissing, ProgramTimedOut, run


async def until_gone(pid: int) -> None:
    """Wait for the end of a process that is not our child."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    ended, _, _ = await asyncio.to_thread(select.select, [process], [], [], 5)
    os.close(process)
    assert ended


async def test_what_it_writes_and_how_it_ends() -> None:
    """Stdout and stderr together, exit codes and signals in words."""
    ended = await run(("sh", "-c", "echo out; echo err >&2; exit 3"), 10)
    assert (ended.code, ended.output, ended.outcome) == (3, "out\nerr", "exit status 3")
    assert (await run(("sh", "-c", "kill -KILL $$"), 10)).outcome == "signal: Killed"


async def test_nothing_of_our_environment_but_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker's environment is not passed on."""
    monkeypatch.setenv("TOKEN", "s3cret")
    said = (await run(("env",), 10)).output
    assert "s3cret" not in said
    assert said.startswith("PATH=") or "\nPATH=" in said


async def test_an_absent_one_names_its_package() -> None:
    """Also reported without a known package."""
    with pytest.raises(ProgramMissing, match=r"^mkfs\.btrfs is not on this node: install btrfs-progs$"):
        await run(("mkfs.btrfs", "/dev/nothing"), 10)
    with pytest.raises(ProgramMissing, match="no-such-program is not on this node"):
        await run(("no-such-program",), 10)


async def test_at_its_deadline_all_that_it_started_is_killed(tmp_path: Path) -> None:
    """With its children."""
    pids = tmp_path / "pids"
    script = f"trap '' TERM; sleep 1000 & echo $! > {pids}; echo $$ >> {pids}; wait"
    with pytest.raises(ProgramTimedOut, match="sh had not ended after 2 s and was killed"):
        await run(("sh", "-c", script), 2)  # in which a busy machine, too, comes as far as `wait`
    for pid in map(int, pids.read_text().split()):
        await until_gone(pid)


async def test_a_cancel_kills_it(tmp_path: Path) -> None:
    """Its pod was deleted."""
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    task = asyncio.create_task(run(("sh", "-c", f"echo $$ > {ready}; sleep 1000"), 1000))
    pid = int(await asyncio.to_thread(ready.read_text))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until_gone(pid)


async def test_its_session_is_its_own() -> None:
    """A signal to our group does not reach it, nor the reverse."""
    ended = await run(("sh", "-c", "cut -d' ' -f6 /proc/$$/stat; echo $$"), 10)
    session, pid = ended.output.split()
    assert session == pid


async def test_a_daemon_that_it_leaves_behind_holds_up_nobody(tmp_path: Path) -> None:
    """It has the program's output open."""
    pid_file = tmp_path / "pid"
    ended = await run(("sh", "-c", f"setsid sleep 1000 & echo $! > {pid_file}; echo done"), 10)
    assert (ended.code, ended.output) == (0, "done")
    os.kill(int(pid_file.read_text()), signal.SIGKILL)
