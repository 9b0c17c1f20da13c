"""Which code runs here: a digest of all that decides what a history replays to.

Temporal shows it as the build that has completed a workflow task, and `tempolet version` prints it. By it a node knows whether
the open histories were replayed with this code before. The SDK's own digest would cover every module of the process, at each start.
"""

import hashlib
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import proto
import worker.payloads
import worker.temporal
import workflows
from workflows.decide.versions import CURRENT

DEPLOYMENT: Final = "tempolet"
"""The name under which Temporal lists the builds."""
LIBRARIES: Final = ("kubernetes", "pydantic", "temporalio")
"""Their code reads histories, too."""
SHOWN: Final = 12
"""Hex digits of the digest that people see."""


@cache
def digest() -> str:
    """Return 64 hex digits; the first call reads a megabyte of files, which takes 30 ms."""
    found = hashlib.sha256()
    for part in (*LIBRARIES, "python"):
        found.update(f"{part} {_version(part)}\n".encode())
    for package in (proto, workflows, worker.payloads, worker.temporal):
        folder = Path(package.__file__ or "").parent
        for file in sorted(folder.rglob("*.py")):
            content = file.read_bytes()
            found.update(f"{package.__name__}/{file.relative_to(folder)} {len(content)}\n".encode() + content)
    return found.hexdigest()


def build_id() -> str:
    """Return the name of this build: the newest behaviour that it knows, and the digest."""
    return f"behaviour-{CURRENT}-{digest()[:SHOWN]}"


def _version(part: str) -> str:
    if part == "python":
        return f"{sys.version_info.major}.{sys.version_info.minor}"
    try:
        return version(part)
    except PackageNotFoundError:  # as part of another package
        return "unknown"
