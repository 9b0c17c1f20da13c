"""`tempolet behaviour`: shows which numbered behaviours the node's runs follow, and commits the node to this release's.

A release changes what workflow code does only under a new number (workflows/decide/versions.py). Runs follow a new number once the
node is committed to it; from then on the previous release cannot run them.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Iterable
from typing import Final

from temporalio.service import RPCError

from worker.behaviours.commitment import NEWEST, Behaviours, Commitment, reasons
from worker.behaviours.runs import Run, runs_of
from worker.commands.access.exits import CommandFailed
from worker.commands.access.temporal_access import client_of
from worker.daemon.config import NodeConfig

HEADER: Final = ("OF", "BEHAVIOUR", "OPEN", "CLOSED", "WHAT")
Numbered = tuple[str, int | None]
"""A kind of workflow and a number; None if the run's input could not be read."""


def show(config: NodeConfig, *, commit: bool, output: str) -> None:
    """Print how many runs follow each number; `commit` first commits the node to this release's newest numbers."""
    commitment = Commitment(config.state_dir)
    try:
        committed = commitment.commit() if commit else commitment.numbers
    except OSError as error:
        where = f"{config.state_dir}: {error.strerror}"
        raise CommandFailed(f"{where}; is it this node's root folder (--root-dir)?") from error
    found = Counter((run.kind, run.behaviour, run.is_open) for run in asyncio.run(_runs(config)))
    if output == "json":
        print(json.dumps(as_json(committed, found), indent=2))
    else:
        print("\n".join([*table(found), *notes(committed, found)]))


async def _runs(config: NodeConfig) -> list[Run]:
    client = await client_of(config)
    try:
        return [run async for run in runs_of(client, config.node_name)]
    except RPCError as error:
        raise CommandFailed(f"Temporal does not list the node's runs: {error.status.name} {error.message}") from error


def numbered(found: Iterable[tuple[str, int | None, bool]]) -> list[Numbered]:
    """List every number that this release knows or that a run follows, pods first."""
    seen: set[Numbered] = {(kind, number) for kind, number, _ in found} | set(reasons())
    return sorted(seen, key=lambda one: (one[0] != "pods", one[1] or 0))


def table(found: Counter[tuple[str, int | None, bool]]) -> list[str]:
    """Return the lines of the table, one for each number."""
    rows = [HEADER]
    for kind, number in numbered(found):
        what = reasons().get(
            (kind, number or 0), "unreadable: sealed with another key" if number is None else "unknown to this release"
        )
        counts = (str(found[kind, number, is_open]) for is_open in (True, False))
        rows.append((kind, "?" if number is None else str(number), *counts, what))  # type: ignore[arg-type]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return ["  ".join([*(text.ljust(width) for text, width in zip(row, widths, strict=False)), row[4]]) for row in rows]


def notes(committed: Behaviours, found: Counter[tuple[str, int | None, bool]]) -> list[str]:
    """Describe the commitment, the runs that are still to be raised, and the numbers that no run follows any more."""
    said = [f"committed: {committed}"]
    if committed != NEWEST:
        said.append(
            f"this release knows {NEWEST}; to give up the way back to the previous release: tempolet behaviour --commit"
        )
    below = sum(
        count
        for (kind, number, is_open), count in found.items()
        if is_open and number is not None and number < committed.of(kind)
    )
    if below:
        said.append(
            f"{below} open {'run is' if below == 1 else 'runs are'} still to be raised: the worker raises one at a time"
        )
    unused = [
        f"{number} of {'pods' if kind == 'pods' else 'the node'}"
        for kind, number in reasons()
        if number < committed.of(kind) and not found[kind, number, True] and not found[kind, number, False]
    ]
    if unused:
        said.append(
            f"no run within Temporal's retention follows {', '.join(unused)}: a release without them can run here"
        )
    return said


def as_json(committed: Behaviours, found: Counter[tuple[str, int | None, bool]]) -> dict[str, object]:
    """Return the commitment and the counts as JSON."""
    return {
        "committed": {"pods": committed.pods, "node": committed.node},
        "newest": {"pods": NEWEST.pods, "node": NEWEST.node},
        "runs": [
            {"of": kind, "behaviour": number, "open": found[kind, number, True], "closed": found[kind, number, False]}
            for kind, number in numbered(found)
        ],
    }
