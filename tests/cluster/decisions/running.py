"""Compares decisions over many seeds, and counts what was decided in them."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.cluster.decisions.cases import case
from tests.cluster.decisions.comparison import differences
from tests.cluster.decisions.program import Kubelet

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


def compare(program: Path, first: int, number: int, kind: str = "") -> Tally:
    """Compare the cases of consecutive seeds, of all kinds if none is given."""
    tally = Tally()
    with Kubelet(program) as kubelet:
        for start in range(first, first + number, BATCH):
            seeds = range(start, min(start + BATCH, first + number))
            cases = [case(seed, kind) for seed in seeds]
            for seed, asked, theirs in zip(seeds, cases, kubelet.answers(cases), strict=True):
                tally.cases += 1
                tally.deeds.update(deeds(asked, theirs))
                if words := "; ".join(differences(asked, theirs)):
                    tally.different[seed] = words
    return tally


def deeds(asked: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[str]:
    """Name what the kubelet did, so that a run shows that its cases are not idle."""
    match asked["kind"]:
        case "thresholds":
            yield "configurations refused" if "error" in theirs else "configurations taken"
        case "rank":
            yield f"rankings for {asked['resource']}"
        case "preempt":
            yield "preemptions" if theirs["kills"] else "pods without a preemption"
        case "shutdown":
            yield "shutdowns" if asked["periods"] else "shutdowns of two kinds of pods"
        case _ if "signal" in asked:
            yield from (f"evictions for {asked['signal']}" for step in theirs["steps"] for _ in step["kills"])
        case _:
            for step in theirs["steps"]:
                yield "rounds"
                attempts = [one for one in step["events"] if not one["uid"]]
                yield from ("rounds with reclaiming" for _ in step["reclaims"][:1])
                yield from ("evictions for the node" if attempts else "evictions for a limit" for _ in step["kills"])
