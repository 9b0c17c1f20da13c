"""The pinned packages as wheels for the Python of Debian 13, fetched by this machine's pip as it is configured to. Used by the Debian package and by the machines of tests."""

import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from deploy.debian.root import CannotBuild

CHECKOUT: Final = Path(__file__).resolve().parents[2]
PYTHON: Final = "3.13"
TAGS: Final = ("manylinux2014", "manylinux_2_28", "manylinux_2_34")
"""What libc of Debian 13 may run."""


def download_wheels(requirements: Sequence[str], into: Path) -> None:
    """Fetch the wheels of the checkout's requirement files, by their hashes; raises CannotBuild."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--require-hashes", "--no-deps"]
    command += ["--only-binary=:all:", f"--python-version={PYTHON}", f"--dest={into}"]
    command += [f"--platform={one}_{platform.machine()}" for one in TAGS]
    for name in requirements:
        command += ["-r", str(CHECKOUT / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotBuild(f"pip cannot fetch the packages of {', '.join(requirements)}: {done.stderr[-2000:]}")
