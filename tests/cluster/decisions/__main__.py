"""`python -m tests.cluster.decisions`: compare many cases, or show one."""

import argparse
import json
import sys

from tests.cluster.decisions.cases import KINDS, case
from tests.cluster.decisions.comparison import differences
from tests.cluster.decisions.program import Kubelet, find_program
from tests.cluster.decisions.running import compare


def main() -> int:
    """Return the exit code: 1 for a difference."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.decisions", description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000, help="how many (100000)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--kind", choices=sorted(KINDS), default="", help="of this kind only (all kinds)")
    parser.add_argument("--show", type=int, metavar="SEED", help="print this case and the kubelet's answer")
    asked = parser.parse_args()
    program = find_program()
    if asked.show is not None:
        return show(asked.show, asked.kind)
    tally = compare(program, asked.first, asked.cases, asked.kind)
    print(tally)
    return 1 if tally.different else 0


def show(seed: int, kind: str) -> int:
    """Print one case."""
    found = case(seed, kind)
    with Kubelet(find_program()) as kubelet:
        theirs = next(kubelet.answers([found]))
    print(json.dumps({"case": found, "kubelet": theirs}, indent=2))
    words = list(differences(found, theirs))
    print(*(words or ["alike"]), sep="\n")
    return 1 if words else 0


if __name__ == "__main__":
    sys.exit(main())
