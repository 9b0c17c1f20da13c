"""Which test files run in one pytest session, and which sessions run side by side. Pure.

Sessions of one kind share what starts once a session: containerd and Temporal for `node`, a control plane too for `cluster`, one with
controllers and a scheduler for `one-node`. Those of `chaos` kill and suspend it, so no other test may share it.
A session waits most of its time for processes and timers, or else it computes. Those that wait may need all processors together, and
no more, so that what they wait for comes as on a machine of their own. Those that compute yield to them and get what they leave: a test
that waits would be ten times as slow there, for a minute at a time, and fail by chance.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from statistics import fmean
from typing import Final


@dataclass(frozen=True, slots=True)
class Kind:
    """Test files that share fixtures of a session."""

    name: str
    below: tuple[str, ...]
    """Folders, and files."""
    longest: float
    """Seconds that one session should take at most."""
    guess: float
    """Seconds of a file, where no file of this kind was measured."""
    cores: float
    """Processors that a session keeps busy on an idle machine, with all processes that it starts."""
    yields: bool = False
    """Whether it works all the time: it runs at a lower priority."""


ONE_NODE: Final = (
    "tests/cluster/conformance/test_conformance_quick.py",
    "tests/cluster/streams/test_kubectl.py",
    "tests/cluster/test_one_node.py",
)
"""Whose tests have the fixture `one_node`."""
PURE: Final = ("tests/chaos/model/", "tests/proto/", "tests/replay/", "tests/workflows/decide/")
"""Whose tests compute: however slow the machine, they find the same."""
KINDS: Final = (
    Kind("node", ("tests/node/",), longest=1300, guess=20, cores=0.3),
    Kind("one-node", ONE_NODE, longest=700, guess=60, cores=0.5),
    Kind("cluster", ("tests/cluster/",), longest=700, guess=30, cores=0.45),
    Kind("chaos", ("tests/chaos/node/",), longest=400, guess=300, cores=0.35),
    Kind("pure", PURE, longest=400, guess=2, cores=0.6, yields=True),
    Kind("rest", ("",), longest=400, guess=2, cores=0.2),
)
"""The first whose folder a file is in, and that begins first: what comes last should be short. A session costs 5 s of CPU time by itself, one of a cluster 30."""
MOST_WAITING: Final = 1.0
"""The part of the processors that sessions may need which wait: more, and tests of other processes fail by chance."""
MOST: Final = 1.6
"""The same of all sessions."""


@dataclass(frozen=True, slots=True)
class Planned:
    """One pytest session: its files, and how long they are expected to take."""

    kind: Kind
    files: tuple[str, ...]
    seconds: float


def kind_of(file: str) -> Kind:
    """Return the kind of a test file from its path below the checkout."""
    return next(kind for kind in KINDS if file.startswith(kind.below))


def expected(files: Collection[str], measured: Mapping[str, float]) -> dict[str, float]:
    """Estimate the seconds of each file: as measured, under its old path where it was moved, else the mean of its kind."""
    gone = [path for path in measured if path not in files]
    return {file: measured.get(file, _moved(file, gone, measured) or _mean(kind_of(file), measured)) for file in files}


def plan(files: Collection[str], seconds: Mapping[str, float]) -> list[Planned]:
    """Divide the files into sessions: those of the first kinds first, of one kind the longest; every file is in exactly one."""
    sessions = []
    for kind in KINDS:
        ours = [file for file in files if kind_of(file) is kind]
        total = sum(seconds[file] for file in ours)
        sessions += [
            Planned(kind, tuple(sorted(part)), sum(seconds[file] for file in part))
            for part in split(ours, seconds, math.ceil(total / kind.longest) or 1)
        ]
    return sorted(sessions, key=lambda one: (KINDS.index(one.kind), -one.seconds))


def split(files: Iterable[str], seconds: Mapping[str, float], number: int) -> list[list[str]]:
    """Divide files into at most so many parts of about the same length: each, the longest first, goes to the shortest part."""
    parts: list[list[str]] = [[] for _ in range(number)]
    taken = [0.0] * number
    for file in sorted(files, key=lambda one: (-seconds[one], one)):
        shortest = taken.index(min(taken))
        parts[shortest].append(file)
        taken[shortest] += seconds[file]
    return [part for part in parts if part]


def next_session(waiting: Sequence[Planned], running: Sequence[Kind], processors: int) -> Planned | None:
    """Choose the first that may run beside what runs; None: nothing may until a session has ended."""
    return next((one for one in waiting if _fits(one.kind, running, processors)), None)


def _fits(kind: Kind, running: Sequence[Kind], processors: int) -> bool:
    others = [one for one in running if kind.yields or not one.yields]
    most = (MOST if kind.yields else MOST_WAITING) * processors
    return kind.yields not in {one.yields for one in running} or sum(one.cores for one in others) + kind.cores <= most


def _moved(file: str, gone: Iterable[str], measured: Mapping[str, float]) -> float | None:
    found = [path for path in gone if PurePosixPath(path).name == PurePosixPath(file).name]
    found = [path for path in found if kind_of(path) is kind_of(file)]
    return measured[found[0]] if len(found) == 1 else None


def _mean(kind: Kind, measured: Mapping[str, float]) -> float:
    known = [seconds for file, seconds in measured.items() if kind_of(file) is kind]
    return fmean(known) if known else kind.guess
