"""Does the runner run a whole tree, tell what failed, run it once more, and leave nothing when it is told to end?"""

import asyncio
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tests.suite.session import HERE, Session
from tests.waiting import until, wait_until

INI = "[pytest]\nmarkers =\n    node: a node\n"
CONFTEST = "from tests.conftest import pytest_keyboard_interrupt, pytest_runtest_setup\n"
FLAKY = """
import pathlib, pytest
@pytest.mark.node
def test_once():
    seen = pathlib.Path("seen")
    again = seen.exists()
    seen.touch()
    assert again, "the first time"
"""
FAILS = 'import pytest\n@pytest.mark.node\ndef test_never():\n    print("a word")\n    assert 1 == 2\n'
PURE = 'import pathlib\ndef test_pure():\n    with open("ran", "a") as ran: ran.write("x")\n    assert 3 == 4\n'
CRASHES = "import os\ndef test_a(): pass\ndef test_crash(): os.kill(os.getpid(), 9)\ndef test_b(): pass\n"
LEAVES = """
import os, pathlib, subprocess
def test_a():
    left = subprocess.Popen(["sleep", "601"], start_new_session=True)
    pathlib.Path("left").write_text(str(left.pid))
    ENDS
"""
SKIPS = 'import pytest\npytest.skip("no such machine", allow_module_level=True)\n'
WAITS = """
import pathlib, pytest, time
@pytest.fixture(scope="session")
def thing():
    yield
    pathlib.Path("cleaned-KIND").touch()
def test_waits(thing):
    pathlib.Path("waits-KIND").touch()
    time.sleep(600)
"""

HANGS = """
import asyncio, pathlib, pytest, time
@pytest.fixture
def thing():
    yield
    time.sleep(600)
async def lost():
    asyncio.get_running_loop().call_soon(pathlib.Path("waits").touch)
    await asyncio.Event().wait()
def test_waits(thing):
    asyncio.run(lost())
"""


@pytest.fixture
def tree(tmp_path: Path) -> Callable[..., Path]:
    """Return a factory of a small checkout with these test files."""

    def make(**files: str) -> Path:
        (tmp_path / "pytest.ini").write_text(INI)
        if {WAITS, HANGS} & set(files.values()):
            (tmp_path / "conftest.py").write_text(CONFTEST)
        for name, text in files.items():
            kind, _, rest = name.partition("_")
            path = tmp_path / "tests" / kind / f"test_{rest}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.replace("KIND", kind))
        return tmp_path

    return make


def started(root: Path, *words: str) -> "subprocess.Popen[str]":
    """Start the runner on a checkout, with a pipe for what it prints."""
    command = [sys.executable, "-u", "-m", "tests.suite", "--root", str(root), "--processors=2", *words]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # of which these small tests need none
    return subprocess.Popen(
        command, cwd=HERE, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def ran(root: Path) -> tuple[int, str]:
    """Run it to its end; answers its exit code and what it has printed."""
    with started(root) as process:
        said, _ = process.communicate(timeout=PATIENCE)
        return process.returncode, said


def last_line(said: str) -> str:
    """Return the last line without its time."""
    return said.splitlines()[-1].rpartition(" in ")[0]


PASSES = "def test_passes(): pass\n"


def test_a_run_whose_tests_pass(tree: Callable[..., Path]) -> None:
    """A line for each file, the reasons of skips, and the sum."""
    code, said = ran(tree(node_a=PASSES, cluster_b=PASSES, decide_c=PASSES, decide_d=SKIPS))
    assert (code, last_line(said)) == (0, "3 passed, 1 skipped")
    assert all(f"4 tests/{name}: 1 passed" in said for name in ("node/test_a.py", "cluster/test_b.py"))
    assert "4/4 tests/" in said
    assert "skipped 1: no such machine" in said


def test_a_flaky_test_is_told_and_does_not_fail_the_run(tree: Callable[..., Path]) -> None:
    """Its failure is shown, too."""
    code, said = ran(tree(node_a=FLAKY, decide_c=PASSES))
    assert (code, last_line(said)) == (0, "2 passed")
    assert "AssertionError: the first time" in said
    assert said.splitlines()[-2] == "flaky: tests/node/test_a.py::test_once"


def test_failures_are_shown_and_only_a_node_is_tried_again(tree: Callable[..., Path]) -> None:
    """In full, with what the test has printed."""
    root = tree(node_a=FAILS, decide_c=PURE, decide_d=PASSES)
    code, said = ran(root)
    assert (code, last_line(said)) == (1, "2 failed, 1 passed")
    assert said.count("FAILED tests/node/test_a.py::test_never (call)") == 2
    assert "a word" in said
    assert "FAILED tests/decide/test_c.py::test_pure - assert 3 == 4" in said
    assert (root / "ran").read_text() == "x"


def test_a_session_that_is_killed_loses_no_test(tree: Callable[..., Path]) -> None:
    """What did not run is named, and the others run on."""
    code, said = ran(tree(decide_a=CRASHES, node_b=PASSES))
    assert code == 1
    assert last_line(said).startswith("2 passed, ")
    assert "error" in last_line(said)
    for name in ("test_crash: did not end", "test_b: did not end"):
        assert f"LOST tests/decide/test_a.py::{name}" in said


@pytest.mark.parametrize(("ends", "code"), [("pass", 0), ("os.kill(os.getpid(), 9)", 1)])
def test_what_a_session_leaves_behind_is_ended_and_named(tree: Callable[..., Path], ends: str, code: int) -> None:
    """A process in a session of its own, after a test that passed, and after one that was killed."""
    root = tree(node_a=LEAVES.replace("ENDS", ends))
    ended, said = ran(root)
    assert ended == code
    assert "ended what 0-node has left behind: sleep" in said
    assert not _is_running((root / "left").read_text())


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_told_to_end_lets_fixtures_clean_up(tree: Callable[..., Path], sign: signal.Signals) -> None:
    """Of all sessions; a second signal does not keep them from it."""
    root = tree(node_a=WAITS, cluster_b=WAITS, decide_c=PASSES)
    with started(root, "tests/node", "tests/cluster") as process:
        try:
            _until_both_wait(root, process)
            process.send_signal(sign)
            process.send_signal(signal.SIGTERM)
            said, _ = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert process.returncode == 2, said
    assert "interrupted: not every test has run" in said
    assert {path.name for path in root.glob("cleaned-*")} == {"cleaned-node", "cleaned-cluster"}


def test_a_run_that_is_killed_takes_its_sessions_with_it(tree: Callable[..., Path]) -> None:
    """The kernel tells them, and they clean up."""
    root = tree(node_a=WAITS, cluster_b=WAITS)
    with started(root) as process:
        _until_both_wait(root, process)
        sessions = [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
        watched = [os.pidfd_open(pid) for pid in sessions]
        process.kill()
        for one in watched:
            _until_ended(one)
    assert len(sessions) == 2
    assert len(list(root.glob("cleaned-*"))) == 2


async def test_a_session_that_hangs_tells_where_and_is_killed(tree: Callable[..., Path]) -> None:
    """Its fixtures had their time."""
    root = tree(node_a=HANGS)
    session = Session(root, ["tests/node"], root / "log", ends_within=1)
    running = asyncio.create_task(session.run(lambda _: None))
    await until((root / "waits").exists, "it waits")
    session.interrupt()
    async with asyncio.timeout(PATIENCE):
        assert await running == -signal.SIGKILL
    assert re.search(
        r"^  lost .*test_a.py:\d+\n  Event.wait .*locks.py:\d+\n", (root / "log").read_text(), re.MULTILINE
    )


def _until_both_wait(root: Path, process: "subprocess.Popen[str]") -> None:
    """Wait until both sessions are in their test."""
    wait_until(lambda: len(list(root.glob("waits-*"))) == 2 or process.poll() is not None, "both wait")
    assert process.poll() is None


def _is_running(pid: str) -> bool:
    """Is there such a process, which has not ended?"""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


def _until_ended(pidfd: int) -> None:
    """Wait until a process has ended."""
    try:
        assert select.select([pidfd], [], [], 60)[0]
    finally:
        os.close(pidfd)
