"""Our part of logind's configuration: how long a shutdown may be delayed.

The file has the kubelet's name, so that of a machine's two agents, one after the other, only one file stays; a purge removes it only if it is
ours. logind reads the last file of all that set a key.
"""

from datetime import timedelta
from math import ceil
from pathlib import Path
from typing import Final

from activities.files.atomic_files import write_atomically

FOLDER: Final = Path("/etc/systemd/logind.conf.d")
NAME: Final = "99-kubelet.conf"
_OURS: Final = "# Written by tempolet (shutdownGracePeriod), and removed by a purge\n"
_LONGEST: Final = 4096


def write_drop_in(delay: timedelta, folder: Path = FOLDER) -> None:
    """Have logind allow a delay once it reads its configuration again; raises OSError."""
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    text = f"{_OURS}[Login]\nInhibitDelayMaxSec={ceil(delay.total_seconds())}\n"
    write_atomically(folder / NAME, text.encode(), mode=0o644)


def remove_drop_in(folder: Path = FOLDER) -> bool:
    """Remove the file if it is ours; returns whether it was. Raises OSError. logind reads that at its next start."""
    try:
        with (folder / NAME).open(errors="replace") as file:
            is_ours = file.read(_LONGEST).startswith(_OURS)
    except FileNotFoundError:
        return False
    if is_ours:
        (folder / NAME).unlink(missing_ok=True)
    return is_ours
