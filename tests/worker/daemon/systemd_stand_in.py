"""A service of a few lines around `worker.daemon.service`, for `test_systemd`: it can be told to block, to fall ill and to leave a child.

Run as a unit with a folder as its argument; the files `block` and `ill` in it are the orders, `child` is the id of the
process that it starts, as containerd's shims are started by what runs pods.
"""

import asyncio
import subprocess
import sys
import time
from pathlib import Path

from worker.daemon.service import Service


async def main(folder: Path) -> None:
    """Serve until stopped, looking for orders."""

    def health() -> str:
        return "fell ill" if (folder / "ill").exists() else ""

    async with Service(health) as service:
        child = subprocess.Popen(["sleep", "600"])  # noqa: ASYNC220 - a moment, before anything runs
        (folder / "child").write_text(str(child.pid))
        service.ready("stands in")
        stop = asyncio.create_task(service.stop_requested())
        while not stop.done():
            if (folder / "block").exists():
                (folder / "block").unlink()
                time.sleep(600)  # noqa: ASYNC251 - the planted fault
            await asyncio.sleep(0.05)
        (folder / "stopped").touch()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
