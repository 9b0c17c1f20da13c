"""Which build has replayed the open histories of this node, in `<root-dir>/tempolet/replayed.json`.

Lives that a build leads replay with it. So they are replayed again only once another build has led them, and that one writes its
own name first. A worker that starts after a crash reads this file, and replays nothing.
"""

import json
import os
from pathlib import Path
from typing import Final

import structlog

from activities.files.atomic_files import write_atomically

FILE: Final = "replayed.json"
LARGEST: Final = 4096
"""Bytes."""

_log: Final = structlog.get_logger(__name__)


class CheckedBuild:
    """The file of one node."""

    def __init__(self, state_dir: Path) -> None:
        self._file = state_dir / FILE

    def is_checked(self, build: str, namespace: str) -> bool:
        """Report whether this build was the last one to replay what is open in this namespace; blocks on the file."""
        try:
            descriptor = os.open(self._file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                said = json.loads(file.read(LARGEST))
        except (OSError, ValueError, RecursionError):
            return False
        return isinstance(said, dict) and (said.get("build"), said.get("namespace")) == (build, namespace)

    def checked(self, build: str, namespace: str) -> None:
        """Note that it has; a disk that takes no file only costs another check. Blocks on the file."""
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self._file, json.dumps({"build": build, "namespace": namespace}).encode(), synced=False)
        except OSError as error:
            _log.warning("which build has replayed the open histories cannot be noted", err=str(error))
