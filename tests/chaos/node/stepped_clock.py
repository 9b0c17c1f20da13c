"""The wall clock of a node's processes, which a scenario steps: `stepped_clock.c`, compiled here and preloaded.

The kernel's own clock cannot be stepped for a few processes, and the machine's belongs to others, too. So files, containerd and Temporal
keep the true time, and the node's processes are ahead of it or behind: worse than a machine whose clock is stepped as a whole.
"""

import shutil
import struct
import subprocess
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_suffix(".c")
COMPILER: Final = "cc"


class NoCompiler(Exception):
    """This machine has no C compiler."""


class SteppedClock:
    """One wall clock."""

    def __init__(self, folder: Path) -> None:
        """Compile; raises NoCompiler."""
        self._library, self._file = folder / "clock.so", folder / "clock"
        if shutil.which(COMPILER) is None:
            raise NoCompiler(
                f"no {COMPILER}: the clock of a node's processes is stepped by a library that is compiled here"
            )
        built = [COMPILER, "-shared", "-fPIC", "-O2", "-o", str(self._library), str(SOURCE), "-ldl"]
        subprocess.run(built, check=True, capture_output=True)
        self._file.write_bytes(struct.pack("q", 0))

    @property
    def environment(self) -> dict[str, str]:
        """What the processes need that have this clock."""
        return {"LD_PRELOAD": str(self._library), "CHAOS_CLOCK": str(self._file)}

    def step(self, seconds: int) -> None:
        """Let it be so many seconds ahead of the true time; negative: behind."""
        with self._file.open("r+b") as file:  # the file is mapped, so it must stay the same one
            file.write(struct.pack("q", seconds))
