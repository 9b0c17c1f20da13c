"""Compares decisions over many seeds, and counts what was decided in them."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tests.cluster.decisions.cases import case
from tests.cluster.decisions.comparison import differences
from tests.cluster.decisions.tally import Subject, Tally, tally


def compare(program: Path, first: int, number: int, kind: str = "") -> Tally:
    """Compare the cases of consecutive seeds, of all kinds if none is given."""
    return tally(program, range(first, first + number), Subject(partial(case, kind=kind), deeds, differences))


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
