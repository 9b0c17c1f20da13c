"""What is kept of a machine whose test has failed, so that the failure can be explained without another run of an hour.

Called by the fixtures of `conftest`, before the machine is switched off.
"""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.machine.machine import Machine, MachineFailed
from tests.machine.shell import ShellFailed

LEFT: Final = "/var/tmp/evidence.tgz"
COLLECT: Final = f"""
mkdir -p /var/tmp/evidence && cd /var/tmp/evidence
journalctl --no-pager -o short-precise > journal.txt
journalctl --no-pager --list-boots > boots.txt
for what in pods 'history default/hello-machine' status; do echo "# $what"; timeout 60 tempolet $what; done > told.txt 2>&1
findmnt > mounts.txt; ip address > addresses.txt; ps -ef > processes.txt
tar cz --ignore-failed-read -f {LEFT} . -C / $(cd / && ls -d var/lib/tempolet/log var/lib/tempolet/node var/lib/tempolet/temporal 2> /dev/null)
"""


def folder_for(test: str, otherwise: Callable[[], Path]) -> Path:
    """Return where to keep it: below MACHINE_EVIDENCE if that is set, else in a folder of pytest's, which keeps those of three runs."""
    given = os.environ.get("MACHINE_EVIDENCE")
    if not given:
        return otherwise()
    Path(given).mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=f"{test}.", dir=given))


def keep(machine: Machine, folder: Path) -> None:
    """Copy the console of all boots, and from a machine that answers its journal, the node's logs and its database."""
    if machine.said.exists():
        shutil.copy(machine.said, folder / "console.txt")
    if machine.is_on():
        try:
            machine.run(COLLECT, check=False)
            (folder / "guest.tgz").write_bytes(machine.get(LEFT))
        except (MachineFailed, ShellFailed) as error:
            (folder / "guest.txt").write_text(str(error))
    print(f"what is left of the machine: {folder}", flush=True)
