"""Do the pods of a node come back whenever its plug is pulled, and what does a power loss take of an SQLite database?"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pytest

from tests.machine.hardware import Disk, Hardware
from tests.machine.machine import Machine
from tests.machine.reboots.losses import lose_power
from tests.machine.reboots.pods import HISTORY, LOG, RESTARTED, restarts, start, until_clean, until_pods_run

ON_CONSOLE: Final = ("systemd.journald.forward_to_console=1",)
"""So that a failed test can tell what was said before each plug: the journal's own last seconds are lost with it."""
CHECKED_EVERY: Final = 5
FOUND_LOST: Final = f"{LOG} | grep -c 'the node knows more of a pod than Temporal'"

WRITING_SECONDS: Final = 75.0
"""Twice what Linux lets a page wait for the disk, and more."""
DISK: Final = "/dev/disk/by-id/virtio-full"
PLACES: Final = {"NORMAL": "/var/lib/measured", "FULL": "/mnt"}
"""Two file systems: a flush of one must not help the other."""
MOUNTED: Final = f"mount {DISK} {PLACES['FULL']} && mkdir -p {PLACES['NORMAL']}"
WRITER: Final = """
import os, sqlite3, sys, time
sync, folder = sys.argv[1:]
console = os.open("/dev/ttyS0", os.O_WRONLY | os.O_NOCTTY)
database = sqlite3.connect(folder + "/it.db", isolation_level=None)
database.execute("PRAGMA journal_mode=WAL")
database.execute("PRAGMA synchronous=" + sync)
database.execute("CREATE TABLE commits (number INTEGER PRIMARY KEY)")
number = 0
while True:
    number += 1
    database.execute("INSERT INTO commits VALUES (?)", [number])
    os.write(console, f"\\n{sync} {number} {time.monotonic():.1f}\\n".encode())
    time.sleep(0.1)  # the load
"""
READER: Final = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1] + "/it.db")
print(database.execute("PRAGMA integrity_check").fetchone()[0])
print(*database.execute("SELECT count(*), coalesce(max(number), 0) FROM commits").fetchone())
"""


@dataclass(frozen=True, slots=True)
class Guest:
    """A guest, as what loses its power."""

    machine: Machine

    def pull_plug(self) -> None:
        """Kill QEMU."""
        self.machine.pull_plug()

    def switch_on(self) -> None:
        """Begin to boot, and do not wait."""
        self.machine.switch_on()

    def until_clean(self) -> list[str]:
        """Wait until nothing of a former boot is left; returns the node's mount points."""
        self.machine.until_running()
        return until_clean(self.machine)

    def until_pods_run(self) -> None:
        """Wait until both pods are ready."""
        until_pods_run(self.machine)

    def restarts(self) -> dict[str, int]:
        """Return the restart counts by the pods' names."""
        return restarts(self.machine)

    def last_said(self) -> str:
        """Return the last line of the console."""
        lines = self.machine.console.text().splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


@pytest.mark.machine
def test_pulled_plugs_at_any_moment(make_machine: Callable[[Hardware], Machine]) -> None:
    """While the machine boots, while the node starts, while it runs: in the end its pods run, and Temporal's database is whole."""
    machine = make_machine(Hardware(kernel_words=ON_CONSOLE))
    machine.boot()
    start(machine)
    lose_power(Guest(machine), CHECKED_EVERY)
    assert RESTARTED in machine.run(HISTORY).stdout
    found = machine.run(FOUND_LOST, check=False).stdout.strip()
    print(f"commits that Temporal had lost were noticed for {found} pods")


@pytest.mark.machine
def test_what_a_power_loss_takes_of_a_database(make_machine: Callable[[Hardware], Machine]) -> None:
    """With synchronous FULL nothing that was committed, with NORMAL the last commits; what is left is whole, and has no gap."""
    machine = make_machine(Hardware(disks=[Disk("full", 256)]))
    machine.boot()
    machine.put(WRITER.encode(), "/root/writer.py")
    machine.put(READER.encode(), "/root/reader.py")
    machine.run(f"mkfs.ext4 -q {DISK} && {MOUNTED} && sync")
    for sync, folder in PLACES.items():
        machine.run(f"nohup python3 /root/writer.py {sync} {folder} > /dev/null 2>&1 &")
    time.sleep(WRITING_SECONDS)  # what is measured is how much of this is lost
    machine.pull_plug()
    told = {sync: _told(machine, sync) for sync in PLACES}
    machine.boot()
    machine.run(MOUNTED)
    lost = {}
    for sync, folder in PLACES.items():
        whole, counts = machine.run(f"python3 /root/reader.py {folder}").stdout.splitlines()
        count, last = map(int, counts.split())
        assert (whole, count) == ("ok", last), f"{sync}: {whole}, {counts}"
        newest = max(told[sync])
        lost[sync] = max(0, newest - last)
        age = told[sync][newest] - told[sync].get(last, min(told[sync].values())) if lost[sync] else 0.0
        print(f"synchronous {sync}: {newest} commits, the last {lost[sync]} lost, {age:.0f} s")
    assert lost["FULL"] == 0


def _told(machine: Machine, sync: str) -> dict[int, float]:
    """Return the numbers that a writer said it had committed, with the time of each."""
    lines = re.findall(rf"^{sync} (\d+) ([\d.]+)\r?$", machine.console.text(), re.MULTILINE)
    return {int(number): float(moment) for number, moment in lines}
