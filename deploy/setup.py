"""Prepares a fresh machine: `make up` and `make test` run this first.

Creates a virtual environment with the pinned packages, then fetches the runtime parts (`worker/standalone/parts/`). Needs only
Python 3.11, changes nothing outside the checkout, and returns at once if everything is there.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import Final

from deploy import venv
from deploy.steps import step
from worker.standalone.machine import programs
from worker.standalone.parts.fetch import FOR_TESTS, fetch

CHECKOUT: Final = Path(__file__).resolve().parents[1]
TEMPORAL: Final = "requirements-temporal.txt"


def main() -> int:
    """Prepare the checkout; returns an exit code."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--dev", action="store_true", help="with the tools that tests and lint need")
    some = arguments.add_mutually_exclusive_group()
    some.add_argument("--without-parts", action="store_true", help="the virtual environment only")
    some.add_argument("--only-parts", action="store_true", help="the parts only; with --dev those of tests, too")
    arguments.add_argument("--root-for", metavar="COMMAND", help="exit unless run as root, naming the command")
    given = arguments.parse_args()
    if given.root_for and os.geteuid() != 0:
        print(
            f"`{given.root_for}` needs root: containerd makes mounts, network namespaces and cgroups", file=sys.stderr
        )
        return 1
    try:
        if not given.only_parts:
            _make_venv(dev=given.dev)
        if not given.without_parts:
            with step("parts") as this:
                this.detail = fetch(programs.default_parts_dir(), *(FOR_TESTS if given.dev else ()))
    except Exception as error:  # noqa: BLE001 - the operator gets one message, whatever it was
        print(error, file=sys.stderr)
        return 1
    return 0


def _make_venv(*, dev: bool) -> None:
    with step("python") as this:
        folder = CHECKOUT / ".venv"
        wanted = ["requirements-dev.txt" if dev else "requirements.txt"]
        if not _has_temporal():
            wanted.append(TEMPORAL)
        every = ["requirements-dev.txt", *wanted[1:]]
        if venv.is_current(folder, CHECKOUT, wanted) or venv.is_current(folder, CHECKOUT, every):
            this.detail = f"{folder} is there"
        else:
            venv.make(folder, CHECKOUT, wanted)
            this.detail = f"installed {', '.join(wanted)} into {folder}"


def _has_temporal() -> bool:
    try:
        found = programs.find_program(programs.TEMPORAL)
    except programs.MissingProgram:
        return False
    return not found.is_relative_to(CHECKOUT / ".venv")


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main())
