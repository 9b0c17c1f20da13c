"""Whether SELinux is on, which the kernel says by a file."""

from pathlib import Path
from typing import Final

ENFORCE: Final = Path("/sys/fs/selinux/enforce")
"""Its content says whether SELinux denies (1) or only logs (0)."""


def selinux_enabled(root: Path = Path("/")) -> bool:
    """Report whether SELinux is on."""
    return (root / ENFORCE.relative_to("/")).exists()
