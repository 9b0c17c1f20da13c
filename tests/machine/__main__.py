"""Builds what machines are made of, if it is not there: `python -m tests.machine`, which `make test-machine` runs first.

A test would do it too, but for minutes without a word.
"""

import sys

from deploy.debian.root import CannotBuild
from deploy.steps import step
from tests.machine.emulator import accelerator
from tests.machine.images.guest import find_guest
from tests.machine.images.qemu import find_qemu


def main() -> int:
    """Build, and print the durations; returns an exit code."""
    try:
        with step("QEMU") as this:
            qemu = find_qemu()
            this.detail = qemu.image[-1]
        with step("guest") as this:
            guest = find_guest()
            this.detail = str(guest.folder)
        with step("processor") as this:
            this.detail = accelerator(qemu, guest)
    except CannotBuild as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
