"""What a node and its Temporal have written: state transitions and events of workflows, rows, files, bytes."""

import hashlib
import os
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.node.away.stopped_temporal import server_pid
from tests.node.tempolet_node import TempoletNode

Stamp = tuple[int, int, int]
"""Inode, bytes and time of change of a file."""


@dataclass(frozen=True)
class Writes:
    """All of it at one moment."""

    workflows: Mapping[str, tuple[int, int]]
    """State transitions and events of each open run, by workflow and run id."""
    rows: Mapping[str, Counter[str]]
    """The rows of Temporal's database by table, each as a digest."""
    files: Mapping[str, Stamp]
    """The files of the node's folders."""
    stored: Mapping[str, int]
    """Bytes that each process has sent to the disk."""


async def writes_of(node: TempoletNode) -> Writes:
    """Look at everything."""
    return Writes(await transitions(node), rows(node.temporal.database), files(node.root_dir), stored(node))


async def transitions(node: TempoletNode) -> Mapping[str, tuple[int, int]]:
    """Read the state transitions and events of each open run."""
    client = await node.client()
    found = {}
    async for listed in client.list_workflows("ExecutionStatus = 'Running'"):
        run = client.get_workflow_handle(listed.id, run_id=listed.run_id)
        told = (await run.describe()).raw_description.workflow_execution_info
        found[f"{listed.id} {listed.run_id}"] = (told.state_transition_count, told.history_length)
    return found


def rows(database: Path) -> Mapping[str, Counter[str]]:
    """Read every row of an SQLite database that another process writes."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {table: Counter(map(_digest, connection.execute(f"SELECT * FROM '{table}'"))) for table in tables}


def _digest(row: tuple[Any, ...]) -> str:
    return hashlib.sha256(repr(row).encode()).hexdigest()


def files(folder: Path) -> Mapping[str, Stamp]:
    """List the files of a node, but not those of its pods' volumes."""
    return dict(_stamps(folder))


def _stamps(folder: Path) -> Iterator[tuple[str, Stamp]]:
    for place, folders, names in os.walk(folder):
        folders[:] = [one for one in folders if one not in ("volumes", "volume-subpaths")]
        for name in names:
            path = Path(place, name)
            told = path.lstat()
            yield str(path.relative_to(folder)), (told.st_ino, told.st_size, told.st_mtime_ns)


def stored(node: TempoletNode) -> Mapping[str, int]:
    """Read how many bytes worker, poller and Temporal have written to the disk."""
    pids = {role: process.pid for role, process in node.processes.items()} | {"Temporal": server_pid(node.temporal)}
    return {role: _stored(pid) for role, pid in pids.items()}


def _stored(pid: int) -> int:
    told = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return int(told["write_bytes"])


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> Mapping[str, tuple[Any, Any]]:
    """Return what differs, with both values; None is absent."""
    names = before.keys() | after.keys()
    return {name: (before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)}


def changed_rows(before: Writes, after: Writes) -> Mapping[str, tuple[int, int]]:
    """Return how many rows went and came in each table; an updated row does both."""
    pairs = changed(before.rows, after.rows)
    return {table: ((old - new).total(), (new - old).total()) for table, (old, new) in pairs.items()}
