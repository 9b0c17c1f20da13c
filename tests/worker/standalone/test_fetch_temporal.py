"""Is Temporal fetched only where there is none, by its pinned hash, with whatever installs packages here?"""

import sys
from pathlib import Path

import pytest

from worker.standalone.machine import programs
from worker.standalone.machine.programs import MissingProgram, Program
from worker.standalone.parts import temporal
from worker.standalone.parts.fetch import PartsMissing
from worker.standalone.parts.temporal import fetch_temporal, installer

INSTALLS = """\
import pathlib, sys
said = sys.argv[1:]
target = pathlib.Path(said[said.index("--target") + 1]) / "bin"
assert "--require-hashes" in said and "--hash=sha256:" in pathlib.Path(said[-1]).read_text()
target.mkdir(parents=True)
(target / "temporal").write_text("#!/bin/sh\\necho temporal version 1.9.1\\n")
(target / "temporal").chmod(0o755)
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Be on a machine without Temporal, with an installer that is a script; returns the folder of parts."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    monkeypatch.setattr(programs, "SYSTEM_DIRECTORIES", ())
    monkeypatch.setattr(programs, "TEMPORAL", Program("temporal", (1,), "install it"))
    return tmp_path / "parts"


def _installed_by(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    monkeypatch.setattr(temporal, "installer", lambda _: [sys.executable, "-c", script])


def test_it_is_fetched_once(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the program is left, where `up` looks for it."""
    _installed_by(monkeypatch, INSTALLS)
    assert fetch_temporal(machine) == f"fetched temporal 1.9.1 into {machine}"
    assert [one.relative_to(machine) for one in machine.rglob("*") if one.is_file()] == [Path("bin/temporal")]
    _installed_by(monkeypatch, "raise SystemExit(1)")
    assert fetch_temporal(machine) == f"{machine}/bin/temporal is there"


@pytest.mark.parametrize(
    ("script", "why"),
    [
        pytest.param("raise SystemExit('no network')", "no network", id="the-installer-fails"),
        pytest.param("", "the package does not have it", id="nothing-was-installed"),
    ],
)
def test_a_failure_says_what_to_do(machine: Path, monkeypatch: pytest.MonkeyPatch, script: str, why: str) -> None:
    """And leaves no half of it."""
    _installed_by(monkeypatch, script)
    with pytest.raises(PartsMissing, match=rf"temporal cannot be fetched \({why}\): install Temporal's command line"):
        fetch_temporal(machine)
    assert list(machine.iterdir()) == []


def test_uv_is_used_where_pip_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the environments that uv makes."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    uv = tmp_path / "uv"
    uv.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert installer(tmp_path)[:3] == [str(uv), "pip", "install"]


def test_what_is_missing_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every program that `up` needs."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(programs, "SYSTEM_DIRECTORIES", ())
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    for program in (programs.CONTAINERD, programs.RUNC, programs.TEMPORAL):
        with pytest.raises(MissingProgram, match="`tempolet fetch`"):
            programs.find_program(program, tmp_path)
