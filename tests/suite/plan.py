"""Which test files run in one pytest session, and which session runs next. Pure.

Sessions of one kind share what starts once a session: containerd and Temporal for `node`, a control plane too for `cluster`. Those of
`chaos` kill and suspend it, so no other test may share it.
A kind that takes long is split, so that no lane works on alone at the end.
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
    folder: str
    longest: float
    """Seconds that one session should take at most."""
    guess: float
    """Seconds of a file, where no file of this kind was measured."""
    at_once: int
    """Sessions side by side, as long as sessions of other kinds wait."""


KINDS: Final = (
    Kind("cluster", "tests/cluster/", longest=700, guess=30, at_once=1),
    Kind("chaos", "tests/chaos/node/", longest=400, guess=300, at_once=1),
    Kind("node", "tests/node/", longest=1200, guess=20, at_once=3),
    Kind("rest", "", longest=240, guess=2, at_once=2),
)
"""The first whose folder a file is in. With these numbers the lanes end at about the same time. A session costs 5 s of CPU time by itself, one of a cluster 30."""


@dataclass(frozen=True, slots=True)
class Planned:
    """One pytest session: its files, and how long they are expected to take."""

    kind: Kind
    files: tuple[str, ...]
    seconds: float


def kind_of(file: str) -> Kind:
    """Return the kind of a test file from its path below the checkout."""
    return next(kind for kind in KINDS if file.startswith(kind.folder))


def expected(files: Collection[str], measured: Mapping[str, float]) -> dict[str, float]:
    """Estimate the seconds of each file: as measured, under its old path where it was moved, else the mean of its kind."""
    gone = [path for path in measured if path not in files]
    return {file: measured.get(file, _moved(file, gone, measured) or _mean(kind_of(file), measured)) for file in files}


def plan(files: Collection[str], seconds: Mapping[str, float]) -> list[Planned]:
    """Divide the files into sessions, the longest first; every file is in exactly one."""
    sessions = []
    for kind in KINDS:
        ours = [file for file in files if kind_of(file) is kind]
        total = sum(seconds[file] for file in ours)
        sessions += [
            Planned(kind, tuple(sorted(part)), sum(seconds[file] for file in part))
            for part in split(ours, seconds, math.ceil(total / kind.longest) or 1)
        ]
    return sorted(sessions, key=lambda one: one.seconds, reverse=True)


def split(files: Iterable[str], seconds: Mapping[str, float], number: int) -> list[list[str]]:
    """Divide files into at most so many parts of about the same length: each, the longest first, goes to the shortest part."""
    parts: list[list[str]] = [[] for _ in range(number)]
    taken = [0.0] * number
    for file in sorted(files, key=lambda one: (-seconds[one], one)):
        shortest = taken.index(min(taken))
        parts[shortest].append(file)
        taken[shortest] += seconds[file]
    return [part for part in parts if part]


def next_session(waiting: Sequence[Planned], running: Sequence[Kind]) -> Planned:
    """Choose what a free lane runs: the longest of a kind that may have one more session, else the longest."""
    return next((one for one in waiting if running.count(one.kind) < one.kind.at_once), waiting[0])


def _moved(file: str, gone: Iterable[str], measured: Mapping[str, float]) -> float | None:
    found = [path for path in gone if PurePosixPath(path).name == PurePosixPath(file).name]
    found = [path for path in found if kind_of(path) is kind_of(file)]
    return measured[found[0]] if len(found) == 1 else None


def _mean(kind: Kind, measured: Mapping[str, float]) -> float:
    known = [seconds for file, seconds in measured.items() if kind_of(file) is kind]
    return fmean(known) if known else kind.guess
