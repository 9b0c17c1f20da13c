"""Beside a real systemd: starts a process of a node as a service, kills it, stops it, and prints what it saw (`test_units.py`)."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from worker.standalone.machine.process import Command, Supervised
from worker.standalone.machine.units import NodeUnits, UnitCommand, UnitNotOurs

LIMIT = 60.0


def main(folder: Path, unit_folder: Path) -> dict[str, object]:
    """Return the facts."""
    units = NodeUnits(Path("/run/tempolet"), folder, folder=unit_folder)
    process, log = Supervised(folder / "temporal.pid", units), folder / "x.log"
    script = 'echo "$A $1 $TEMPORAL_ADDRESS"; exec sleep 600'
    command = Command(["/bin/sh", "-c", script, "sh", "50% $1"], log, {"A": 'so "it" $is'})
    first = process.start(command)
    seen: dict[str, object] = {"started": process.running() == first, "again": process.start(command) == first}
    seen["others"] = Supervised(folder / "temporal.pid").running() == first
    os.kill(first.pid, signal.SIGKILL)
    seen["restarted"] = _until(lambda: (found := process.running()) is not None and found.pid != first.pid)
    units.write_boot(UnitCommand(("/bin/true",), {}, log=None))
    units.enable()
    seen["installed"] = sorted(one.name for one in unit_folder.iterdir() if "tempolet-up" in one.name)
    seen["enabled"] = (Path("/etc/systemd/system/multi-user.target.wants") / units.target).is_symlink()
    seen["environment"] = oct(units.environments.joinpath("temporal.env").stat().st_mode & 0o777)
    seen["willing"] = process.stop(5)
    seen["stopped"] = process.running() is None
    (unit_folder / units.name("poller")).write_text("[Service]\nExecStart=/bin/true\n")
    seen["foreign"] = _refused(Supervised(folder / "poller.pid", units), command)
    units.remove()
    seen["left"] = sorted(one.name for one in unit_folder.iterdir() if "tempolet-up" in one.name)
    seen["log"] = log.read_text().splitlines()[0]
    return seen


def _refused(process: Supervised, command: Command) -> str:
    try:
        process.start(command)
    except UnitNotOurs as error:
        return str(error)
    return ""


def _until(true: Callable[[], bool]) -> bool:
    until = time.monotonic() + LIMIT
    while not (found := true()) and time.monotonic() < until:
        time.sleep(0.1)  # systemd starts it again: another process
    return found


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), Path(sys.argv[2]))))
