"""`python -m tests.replay.lives --seeds 0:500` generates and stores lives; `--show 17` prints one as JSON.

Run once for each behaviour, shortly before its release. An existing archive is never replaced: while its behaviour is not
released, delete the files by hand and record again.
"""

import argparse
import asyncio
import logging
import sys

from tests.replay.lives.archive import RecordedRun, archives, as_json, behaviour_of, path_of, read, write
from tests.replay.lives.choosing import choose
from tests.replay.lives.recording import record
from tests.replay.lives.replaying import replay_all
from workflows.decide.versions import CURRENT, CURRENT_NODE

PER_ARCHIVE = 100


def main() -> int:
    """Record lives, or print one."""
    parser = argparse.ArgumentParser(prog="python -m tests.replay.lives", description=__doc__)
    parser.add_argument("--kind", choices=("pod", "node"), default="pod")
    parser.add_argument(
        "--behaviour", type=int, help="of the pod's or node's workflow; the newest unless told otherwise"
    )
    parser.add_argument("--seeds", default="0:500", help="from:to, where to is not led any more")
    parser.add_argument("--patience", type=float, default=1, help="factor of a pod's waits, for a busy machine")
    parser.add_argument("--show", metavar="SEED[/RUN]", help="write the recorded runs of a life to stdout as JSON")
    parser.add_argument("--choose", action="store_true", help="choose anew the lives that `make test` replays")
    asked = parser.parse_args()
    if asked.choose:
        choose()
        return 0
    behaviour = asked.behaviour or (CURRENT if asked.kind == "pod" else CURRENT_NODE)
    if asked.show:
        return show(asked.kind, behaviour, asked.show)
    first, _, last = asked.seeds.partition(":")
    seeds = range(int(first), int(last))
    paths = {path_of(asked.kind, behaviour, seed // PER_ARCHIVE) for seed in seeds}
    if there := sorted(path.name for path in paths if path.exists()):
        print(
            f"{', '.join(there)}: recorded already, and a released behaviour's lives are never replaced",
            file=sys.stderr,
        )
        return 1
    logging.getLogger("temporalio").setLevel(logging.CRITICAL)  # failures are drawn
    runs = faithful(record(asked.kind, behaviour, seeds, asked.patience))
    for path in sorted(paths):
        mine = [run for run in runs if path_of(asked.kind, behaviour, run.seed // PER_ARCHIVE) == path]
        write(path, mine)
        events = sum(len(run.history.events) for run in mine)
        print(f"{path.name}: {len(mine)} runs, {events} events, {path.stat().st_size:,} bytes")
    choose()
    return 0


def faithful(runs: list[RecordedRun]) -> list[RecordedRun]:
    """Leave out lives that do not replay with the very code that recorded them.

    The SDK replays a workflow task without commands together with the next one, at the time of the later one.
    """
    differ = asyncio.run(differing(runs))
    for name, why in differ.items():
        print(f"{name} is left out: {why}", file=sys.stderr)
    seeds = {int(name.partition("/")[0]) for name in differ}
    return [run for run in runs if run.seed not in seeds]


async def differing(runs: list[RecordedRun]) -> dict[str, str]:
    """Replay runs and return the differences, by name."""
    return {name: why async for name, why in replay_all(runs) if why}


def show(kind: str, behaviour: int, asked: str) -> int:
    """Print recorded runs in the format that `tempolet history` and the UI read."""
    seed, _, number = asked.partition("/")
    for path in archives(kind):
        for run in read(path) if behaviour_of(path) == behaviour else ():
            if run.seed == int(seed) and number in ("", str(run.number)):
                print(as_json(run))
    return 0


sys.exit(main())
