"""A container that keeps swapping a folder of its volume with a link to the host; run as a program beside the test.

`python -m tests.activities.volumes.flipping_container <folder> <link> <times>`: both exist and are exchanged
atomically (renameat2 with RENAME_EXCHANGE), so there is always something at the path. It continues until it has done
so often enough and its standard input is closed.
"""

import ctypes
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

FLIPS: Final = 10_000

_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2
_BETWEEN_LOOKS: Final = 100


def main(folder: str, link: str, times: str) -> None:
    """Swap as often as asked; raises OSError if the kernel or file system cannot."""
    libc = ctypes.CDLL(None, use_errno=True)
    done = 0
    while done < int(times) or not select.select([sys.stdin], [], [], 0)[0]:
        for _ in range(_BETWEEN_LOOKS):
            if libc.renameat2(_AT_FDCWD, os.fsencode(folder), _AT_FDCWD, os.fsencode(link), _RENAME_EXCHANGE) != 0:
                raise OSError(ctypes.get_errno(), "renameat2")
        done += _BETWEEN_LOOKS


@contextmanager
def flipping(folder: Path, link: Path) -> Iterator[None]:
    """Run such a container while the test continues."""
    command = [sys.executable, "-m", "tests.activities.volumes.flipping_container", str(folder), str(link), str(FLIPS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as container:
        try:
            yield
        finally:
            container.communicate()
    assert container.returncode == 0


if __name__ == "__main__":
    main(*sys.argv[1:])
