"""The program named kubelet that the official node tests start: worker, poller and node with the kubelet's flags.

`python -m tests.cluster.node_tests.kubelet_launcher TEMPOLET_CONFIG [the kubelet's flags…]`. The three are one unit of systemd, as the tests
expect of a kubelet; an operator has three. It ends when it is told to, or when one of them ends.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

ROLES: Final = {"worker": (), "poller": ("--healthz-port=0",), "node": ()}
"""The processes and their own flags, as in deploy/systemd: /healthz is the node process's."""
ENDS: Final = (signal.SIGTERM, signal.SIGINT)


def main(arguments: Sequence[str]) -> int:
    """Run the three; returns the exit code of the one that ended first, 0 if that was asked for."""
    own, *flags = arguments
    processes: list[subprocess.Popen[bytes]] = []
    told: list[int] = []

    def end(sign: int, _: object) -> None:
        told.append(sign)
        for process in processes:
            process.terminate()

    for sign in ENDS:
        signal.signal(sign, end)
    for role, more in ROLES.items():
        command = [sys.executable, "-m", "worker.cli", role, "--tempolet-config", own, *flags, *more]
        processes.append(subprocess.Popen(command))
    _, status = os.wait()
    for process in processes:
        process.terminate()  # also one that was started while the signal came
        process.wait()
    return 0 if told else os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
