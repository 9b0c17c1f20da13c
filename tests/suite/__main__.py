"""Run all tests, in separate pytest sessions side by side.

python -m tests.suite                     all of them, as `make test`
python -m tests.suite tests/node          those below a folder
python -m tests.suite --record            writes down, too, how long each file took: how the next runs are split
"""

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Final

from tests.suite.files import find_test_files, read_durations, write_durations
from tests.suite.plan import expected, plan
from tests.suite.run import PROCESSORS, Run

ROOT: Final = Path(__file__).parents[2]


def main() -> int:
    """Do what was asked; answers an exit code."""
    given = _arguments()
    measured = read_durations()
    every, files = find_test_files(given.root), find_test_files(given.root, given.below)
    run = Run(given.root, given.root / ".build" / "suite", processors=given.processors)
    code = asyncio.run(run.all(plan(files, expected(files, measured))))
    if given.record:
        new = {file: seconds for one in run.results for file, seconds in one.seconds.items()}
        write_durations({file: seconds for file, seconds in (measured | new).items() if file in every})
    return code


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("below", nargs="*", default=["tests"], help="folders or files of tests [tests]")
    parser.add_argument("--record", action="store_true", help="write down how long each file took")
    parser.add_argument("--processors", type=int, default=PROCESSORS, help="plan for so many")
    parser.add_argument("--root", type=Path, default=ROOT, help="another checkout than this")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
