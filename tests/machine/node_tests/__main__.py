"""`make test-node-official BOOTED=1`: the official node tests on a booted machine; the arguments that are not here go to the runner in it."""

import argparse
import signal
import sys
from dataclasses import replace
from pathlib import Path

from deploy.debian.root import CannotBuild, NotHere
from tests.cluster.binaries import NoBinaries
from tests.cluster.node_tests.node_tests_run import OUT
from tests.machine.machine import MachineFailed
from tests.machine.node_tests.booted_run import HARDWARE, run_booted


def main() -> int:
    """Run the chosen tests; returns an exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT / "booted", help="folder of log and junit file")
    parser.add_argument(
        "--cores", type=int, help="of each of its two sockets, without SMT; the default has two, with SMT"
    )
    given, rest = parser.parse_known_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the machine is removed as with Ctrl-C
    hardware = replace(HARDWARE, cores=given.cores, threads=1) if given.cores else HARDWARE
    try:
        return run_booted(rest, given.out.absolute(), hardware)
    except (NoBinaries, NotHere, CannotBuild, MachineFailed) as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
