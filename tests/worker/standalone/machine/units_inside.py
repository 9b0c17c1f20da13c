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
    process, log = Supervised(folder / "temporal.pid", units), folder / "not-written.log"
    script = 'echo "$A $1 $TEMPORAL_ADDRESS"; exec sleep 600'
    command = Command(["/bin/sh", "-c", script, "sh", "50% $1"], log, {"A": 'so "it" $is'})
    first = process.start(command)
    seen: dict[str, object] = {"started": process.running() == first, "again": process.start(command) == first}
    seen["others"] = Supervised(folder / "temporal.pid").running() == first
    os.kill(first.pid, signal.SIGKILL)
    seen["restarted"] = _until(lambda: (found := process.running()) is not None and found.pid != first.pid)
    _until(lambda: "ends" in process.log(log).ending())
    seen["log"], seen["file"] = process.log(log).ending(), log.exists()
    units.write_boot(UnitCommand(("/bin/true",), {}))
    units.enable()
    seen["installed"] = sorted(one.name for one in unit_folder.iterdir() if "tempolet-up" in one.name)
    seen["enabled"] = (Path("/etc/systemd/system/multi-user.target.wants") / units.target).is_symlink()
    seen["environment"] = oct(units.environments.joinpath("temporal.env").stat().st_mode & 0o777)
    seen["willing"] = process.stop(5)
    seen["stopped"] = process.running() is None
    (unit_folder / units.name("poller")).write_text("[Service]\nExecStart=/bin/true\n")
    seen["foreign"] = _refused(Supervised(folder / "poller.pid", units), command)
    seen["ends"] = _endings_of_one_that_ends(Supervised(folder / "node.pid", units), log)
    unit = unit_folder / units.name("node")
    unit.write_text(f"{unit.read_text()}StandardOutput=append:/a/50%%.log\n")
    seen["earlier"] = Supervised(folder / "node.pid", units).log(log).where
    units.remove()
    seen["left"] = sorted(one.name for one in unit_folder.iterdir() if "tempolet-up" in one.name)
    return seen


def _endings_of_one_that_ends(process: Supervised, log: Path) -> list[str]:
    """Return how the log of a process ended, twice: it ends and is started again."""
    process.start(Command(["/bin/sh", "-c", 'echo begun; echo "life of $$"; exit 3'], log, {}))
    told: list[str] = []

    def tells_another() -> bool:
        said = process.log(log).ending()
        told.extend([said] if "life" in said and said not in told else [])
        return len(told) == 2

    _until(tells_another)
    process.stop(5)
    return told


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
