"""Folders and files of a node that only root may read: they hold keys, credentials of the configuration, pods' logs.

Modes are set explicitly, whatever the operator's umask, and also on what an earlier release has made.
"""

import os
from pathlib import Path
from typing import BinaryIO, Final

PRIVATE_FOLDER: Final = 0o700
PRIVATE_FILE: Final = 0o600


def private_folder(folder: Path) -> Path:
    """Make a folder that only root can enter, unless it is there, and return it."""
    folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
    folder.chmod(PRIVATE_FOLDER)
    return folder


def private_log(path: Path) -> BinaryIO:
    """Open a log for appending that only root can read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
    os.fchmod(descriptor, PRIVATE_FILE)
    return os.fdopen(descriptor, "ab")
