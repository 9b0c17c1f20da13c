"""The kernel's id of this boot: another one after each restart of the machine."""

from pathlib import Path
from typing import Final

BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Return it; raises OSError where there is no /proc."""
    return BOOT_ID.read_text().strip()
