"""Releases for upgrades: folders that are copies of this one, with something added, and their `tempolet upgrade` as a process."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.node.tempolet_node import ROOT
from worker.standalone.settings import RUN_VARIABLE, Settings

PACKAGES: Final = ("proto", "workflows", "activities", "worker")
PATIENT: Final = 200.0
"""Seconds for each process of a release that works."""


def release(folder: Path, file: str = "worker/cli.py", addition: str = "") -> Path:
    """Make a release: a copy of this one, with something added to one file."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, copy_function=linked)
    changed = folder / file
    text = changed.read_text() + addition
    changed.unlink()
    changed.write_text(text)
    return folder


def linked(source: str, target: str) -> None:
    """Link a file, so that a copy takes no time, and its compiled modules are good."""
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)


def upgrade(node: Settings, folder: Path, within: float = PATIENT) -> tuple[int, str]:
    """Run the `tempolet upgrade` of a release; returns its exit code, and what it says."""
    command = [sys.executable, "-m", "worker.cli", "upgrade", "--within", str(within)]
    environment = {**os.environ, "PYTHONPATH": str(folder), RUN_VARIABLE: str(node.run_dir)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def release_of(pid: int) -> str:
    """Return the folder of the release that a process is of; empty between its fork and its start as another program."""
    variables = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return next((one.removeprefix("PYTHONPATH=") for one in variables if one.startswith("PYTHONPATH=")), "")
