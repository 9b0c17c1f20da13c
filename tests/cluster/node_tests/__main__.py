"""`make test-node-official`: the official node tests, on the real kubelet (`--peer kubelet`) or on ours."""

import argparse
import signal
import sys
from pathlib import Path

from tests.cluster.binaries import NoBinaries
from tests.cluster.conformance.conformance_run import ConformanceFailed
from tests.cluster.node_tests.node_machine import missing_programs
from tests.cluster.node_tests.node_tests_run import FOCUS, PEERS, TIMEOUT, Choice, run_node_tests


def main() -> int:
    """Run the chosen tests; returns an exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", choices=PEERS, default="tempolet", help="whose node")
    parser.add_argument("--focus", default=FOCUS, help=f"regular expression of test names [{FOCUS}]")
    parser.add_argument("--skip", default="", help="regular expression of names to leave out")
    parser.add_argument("--out", type=Path, default=None, help="folder of log and junit file")
    parser.add_argument(
        "--huge-pages", action="store_true", help="limit huge pages by cgroups on a machine that does not"
    )
    parser.add_argument("--prepull", action="store_true", help="pull every image before the first test")
    parser.add_argument("--timeout", default=TIMEOUT, help="limit of the whole run, as Go writes it")
    given = parser.parse_args()
    if missing := missing_programs():
        print(f"needs {', '.join(missing)}: install systemd, dbus, util-linux, e2fsprogs and iproute2", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the machine is removed as with Ctrl-C
    try:
        choice = Choice(given.peer, given.focus, given.skip, given.out, given.timeout, given.prepull, given.huge_pages)
        return run_node_tests(choice)
    except (NoBinaries, ConformanceFailed) as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
