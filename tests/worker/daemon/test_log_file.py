"""Does a process's own log stay within bounds, however much a stranger makes it write?"""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.node.tempolet_node import ROOT
from worker.daemon.logs import KEPT_FILES, LARGEST_FILE

FLOOD: Final = """
import os, sys
from pathlib import Path
import structlog
from worker.daemon.config import Logging
from worker.daemon.logs import LogFile, set_up_logs
set_up_logs(Logging(), LogFile(Path(sys.argv[1]), largest=4096, kept=2))
for number in range(500):
    structlog.get_logger("x").warning("a pod says", number=number, words="é" * 100)
os.write(2, b"core's own words\\n")
print("to stdout", flush=True)
"""


def flooded(log: Path, named: Path, *, exits: int = 0) -> None:
    """Run a process whose output goes to `log`, and that is told that `named` is its log."""
    log.touch(mode=0o600)
    with log.open("ab") as output:
        argv = [sys.executable, "-c", FLOOD, str(named)]
        assert subprocess.run(argv, stdout=output, stderr=output, cwd=ROOT, check=False).returncode == exits


def test_a_flood_of_lines_takes_a_bounded_space(tmp_path: Path) -> None:
    """The newest lines are kept, whole and in order, and so is what is written without the logger."""
    log = tmp_path / "worker.log"
    flooded(log, log)
    files = [tmp_path / f"worker.log{end}" for end in (".2", ".1", "")]
    assert sorted(tmp_path.iterdir()) == sorted(files)
    assert all(path.stat().st_size <= 4096 + 64 for path in files)
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in files)
    lines = [line for path in files for line in path.read_text().splitlines()]
    assert lines[-2:] == ["core's own words", "to stdout"]
    numbers = [int(line.split("number=")[1].split()[0]) for line in lines[:-2]]
    assert numbers == list(range(numbers[0], 500))


@pytest.mark.parametrize("named", ["another.log", "missing/worker.log"])
def test_a_file_that_is_not_stderr_is_left_alone(tmp_path: Path, named: str) -> None:
    """Whoever redirected stderr elsewhere rotates it, or wants all of it."""
    (tmp_path / "another.log").write_text("theirs")
    log = tmp_path / "worker.log"
    flooded(log, tmp_path / named)
    assert log.stat().st_size > 50_000
    assert (tmp_path / "another.log").read_text() == "theirs"


def test_a_log_that_cannot_be_rotated_goes_on(tmp_path: Path) -> None:
    """No line is lost, and the process lives."""
    log = tmp_path / "worker.log"
    (tmp_path / "worker.log.1" / "in-the-way").mkdir(parents=True)
    (tmp_path / "worker.log.2").write_text("")
    flooded(log, log)
    assert log.read_text().count("a pod says") == 500


def test_the_bounds_of_a_node() -> None:
    """Three processes take 192 MiB at most."""
    assert 3 * LARGEST_FILE * (1 + KEPT_FILES) == 192 << 20
