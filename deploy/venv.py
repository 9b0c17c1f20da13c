"""A virtual environment in the checkout with exactly the pinned packages.

tempolet's import names (`proto`, `worker` …) are safe only in an environment of its own. Every file is checked against
its hash; installed requirement files are recorded, so a second run has nothing to do.
"""

import contextlib
import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from worker.standalone.parts.debian import NotFetched
from worker.standalone.parts.temporal import debian_pip

STAMP: Final = "tempolet-installed.json"
EDITABLE: Final = ("--no-deps", "--no-build-isolation", "--no-index", "--config-settings", "editable_mode=compat")


class VenvFailed(Exception):
    """The environment could not be created; the message says why and what to do."""


def is_current(venv: Path, checkout: Path, requirements: Iterable[str]) -> bool:
    """Report whether all of these files are installed in their present version, by this Python."""
    return _stamp(checkout, requirements).items() <= _installed(venv).items() and (venv / "bin/python").exists()


def make(venv: Path, checkout: Path, requirements: Sequence[str]) -> None:
    """Create the environment and install requirement files and the checkout itself; raises VenvFailed."""
    if _installed(venv).get("python") != _python() or not (venv / "bin/python").exists():
        _create(venv)
    for name in requirements:
        if _installed(venv).get(name) != _digest(checkout / name):
            _pip(venv, "install", "--require-hashes", "--no-deps", "--requirement", str(checkout / name))
    _pip(venv, "install", *EDITABLE, "--editable", str(checkout))
    stamp = _installed(venv) | _stamp(checkout, requirements)
    (venv / STAMP).write_text(json.dumps(stamp, indent=1) + "\n")


def _create(venv: Path) -> None:
    """Create an empty environment; if Debian has split off pip, its package is unpacked, not installed."""
    with contextlib.suppress(VenvFailed):
        _run([sys.executable, "-m", "venv", "--clear", venv])
        return
    _run([sys.executable, "-m", "venv", "--clear", "--without-pip", venv])
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        try:
            wheel = debian_pip(work)
        except NotFetched as error:
            raise VenvFailed(
                f"this Python has no pip, and it cannot be fetched ({error}): install python3-venv"
            ) from error
        _run([venv / "bin/python", wheel / "pip", "install", "--quiet", "--no-index", "--no-deps", wheel])


def _pip(venv: Path, *arguments: str) -> None:
    _run([venv / "bin/python", "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments])


def _run(argv: Sequence[str | Path]) -> None:
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip()
        raise VenvFailed(f"`{' '.join(str(word) for word in argv)}` failed:\n{said}")


def _installed(venv: Path) -> dict[str, str]:
    try:
        found: dict[str, str] = json.loads((venv / STAMP).read_text())
    except (OSError, ValueError):
        return {}
    return found


def _stamp(checkout: Path, requirements: Iterable[str]) -> dict[str, str]:
    files = ("pyproject.toml", *requirements)
    return {"python": _python(), "checkout": str(checkout), **{name: _digest(checkout / name) for name in files}}


def _python() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor} {Path(sys.executable).resolve()}"


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
