"""Builds what machines are made of, if it is not there: `python -m tests.machine`, which `make test-machine` runs first.

A test would do it too, but for minutes without a word.
"""

import sys

from deploy.debian.root import CannotBuild, NotHere
from deploy.steps import step
from tests.machine.images.guest import find_guest
from tests.machine.images.qemu import find_qemu


def main() -> int:
    """Build, and print the durations; returns an exit code."""
    try:
        with step("QEMU") as this:
            this.detail = find_qemu().image[-1]
        with step("guest") as this:
            this.detail = str(find_guest().folder)
    except NotHere as error:
        print(f"{error}; the tests that need a booted machine are left out")
        return 0
    except CannotBuild as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
