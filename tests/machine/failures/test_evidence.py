"""Can the failure of a test be explained when its machine is gone?"""

import subprocess
import tarfile
from pathlib import Path
from typing import Final
from unittest.mock import Mock

import pytest

from tests.machine.emulator import Console
from tests.machine.failures import evidence
from tests.machine.machine import Machine, Parts
from tests.patience import PATIENCE

FAILING: Final = """
from tests.machine import conftest
from tests.machine.conftest import pytest_runtest_makereport
import pytest

@pytest.fixture
def told(request):
    yield
    print("failed:", request.node.stash.get(conftest.FAILED, False))
"""


def test_the_console_is_kept_whole(tmp_path: Path) -> None:
    """Of a machine that is off, too: the last 256 KiB are what a test sees, not what is kept."""
    machine = Machine(Mock(spec=Parts), tmp_path)
    begun = b"the first boot\n"
    said = tmp_path / "said"
    said.write_bytes(begun + b"x" * (300 << 10) + b"the last words")
    says = subprocess.Popen(["cat", said], stdout=subprocess.PIPE)
    machine.console.listen(says)
    assert machine.console.until("the last words", lambda: True, PATIENCE)
    assert says.wait() == 0
    kept = tmp_path / "kept"
    kept.mkdir()
    evidence.keep(machine, kept)
    assert (kept / "console.txt").read_bytes().startswith(begun)
    assert "first boot" not in machine.console.text()
    assert [one.name for one in kept.iterdir()] == ["console.txt"]


def test_a_console_without_a_file_is_only_heard() -> None:
    """Such as that of the probe for KVM."""
    console = Console()
    says = subprocess.Popen(["echo", "words"], stdout=subprocess.PIPE)
    console.listen(says)
    assert console.until("words", lambda: True, PATIENCE)
    assert says.wait() == 0


@pytest.mark.parametrize(("test", "told"), [("assert False", "True"), ("pass", "False")], ids=["failed", "passed"])
def test_fixtures_know_whether_their_test_has_failed(tmp_path: Path, test: str, told: str) -> None:
    """By then the machine is on still."""
    (tmp_path / "conftest.py").write_text(FAILING)
    (tmp_path / "test_one.py").write_text(f"def test_one(told):\n    {test}\n")
    root = Path(__file__).parents[3]
    command = [
        str(root / ".venv/bin/python"),
        "-m",
        "pytest",
        "-s",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
    ]
    done = subprocess.run(
        [*command, str(tmp_path)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"failed: {told}" in done.stdout, done.stdout


@pytest.mark.machine
def test_what_a_running_machine_knows_is_kept(shared_machine: Machine, tmp_path: Path) -> None:
    """Its journal, from the kernel's first words on, and what it runs."""
    evidence.keep(shared_machine, tmp_path)
    with tarfile.open(tmp_path / "guest.tgz") as kept:
        content = {one.name.removeprefix("./"): kept.extractfile(one) for one in kept if one.isfile()}
    journal, processes = content["journal.txt"], content["processes.txt"]
    assert journal is not None
    assert processes is not None
    assert b"Linux version" in journal.read()
    assert b"guest_shell.py" in processes.read()
    assert b"Linux version" in (tmp_path / "console.txt").read_bytes()


def test_evidence_goes_where_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder for each failure; other runs of pytest remove those of its own."""
    monkeypatch.delenv("MACHINE_EVIDENCE", raising=False)
    assert evidence.folder_for("test_one", lambda: tmp_path) == tmp_path
    monkeypatch.setenv("MACHINE_EVIDENCE", str(tmp_path / "asked"))
    folders = {evidence.folder_for("test_one", lambda: tmp_path) for _ in range(2)}
    assert {one.parent for one in folders} == {tmp_path / "asked"}
    assert len(folders) == 2
