"""Asks the program about many cases, and counts what the kubelet did in them and what differs."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.cluster.decisions.program import Kubelet

Json = Mapping[str, Any]
BATCH: Final = 1000
SHOWN: Final = 5


@dataclass(slots=True)
class Tally:
    """How many cases there were, what the kubelet did in them, and what differs."""

    cases: int = 0
    deeds: Counter[str] = field(default_factory=Counter)
    different: dict[int, str] = field(default_factory=dict)
    """By seed."""

    def __str__(self) -> str:
        """Say it in a few lines."""
        counted = ", ".join(f"{number} {name}" for name, number in sorted(self.deeds.items()))
        some = [f"seed {seed}: {words}" for seed, words in list(self.different.items())[:SHOWN]]
        return "\n".join([f"{self.cases - len(self.different)} of {self.cases} cases alike ({counted})", *some])


@dataclass(frozen=True, slots=True)
class Subject:
    """What is compared."""

    case: Callable[[int], Json]
    """Draws the case of a seed."""
    deeds: Callable[[Json, Json], Iterable[str]]
    """Names what the kubelet did in a case, so that a run shows that its cases are not idle."""
    differences: Callable[[Json, Json], Iterable[str]]
    """Yields in words what differs between our decision and the kubelet's."""


def tally(program: Path, seeds: range, subject: Subject) -> Tally:
    """Compare the cases of these seeds."""
    counted = Tally()
    with Kubelet(program) as kubelet:
        for start in range(0, len(seeds), BATCH):
            batch = seeds[start : start + BATCH]
            cases = [subject.case(seed) for seed in batch]
            for seed, asked, theirs in zip(batch, cases, kubelet.answers(cases), strict=True):
                counted.cases += 1
                counted.deeds.update(subject.deeds(asked, theirs))
                if words := "; ".join(subject.differences(asked, theirs)):
                    counted.different[seed] = words
    return counted
