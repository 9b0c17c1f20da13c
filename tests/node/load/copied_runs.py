"""Copies of one run in the database of an embedded Temporal that does not run: many long histories at the price of one.

A copy has another workflow id, run id and UID, of the same lengths. So they are exchanged in Temporal's own records byte by byte;
payloads are decrypted, and encrypted for their new workflow. Only a run without pending activities and timers can be copied.
"""

import sqlite3
import uuid
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from temporalio.api.history.v1 import History

from proto.temporal.names import ACTIVITY, NAMESPACE
from worker.temporal.codec import ENCRYPTED, PayloadCipher
from worker.temporal.decoded_history import payloads_in

NOT_COPIED = ("activity_info_maps", "timer_info_maps", "transfer_tasks", "timer_tasks", "buffered_events")
"""Tables that must have nothing of the run."""


@dataclass(frozen=True)
class Run:
    """The names of one run."""

    workflow_id: str
    run_id: str
    uid: str

    @property
    def key(self) -> bytes:
        """The run's id as a column has it."""
        return uuid.UUID(self.run_id).bytes

    def words(self, other: "Run") -> Mapping[bytes, bytes]:
        """Return what is exchanged for another run."""
        pairs = [(self.workflow_id, other.workflow_id), (self.run_id, other.run_id), (self.uid, other.uid)]
        assert all(len(one) == len(another) for one, another in pairs)
        return {one.encode(): another.encode() for one, another in pairs} | {self.key: other.key}


def copy_run(database: Path, cipher: PayloadCipher, original: Run, copies: list[Run]) -> None:
    """Add the copies of a run."""
    with closing(sqlite3.connect(database)) as connection, connection:
        for table in ("executions", "current_executions", "history_tree", "history_node"):
            column, key = ("tree_id", original.key) if "history" in table else ("workflow_id", original.workflow_id)
            rows = connection.execute(f"SELECT * FROM {table} WHERE {column} = ?", (key,)).fetchall()
            assert rows, f"{table} has nothing of {original}"
            marks = ", ".join("?" * len(rows[0]))
            for copy in copies:
                words = original.words(copy)
                changed = (
                    [
                        _history(value, cipher, original, copy)
                        if _is_history(table, value)
                        else _exchanged(value, words)
                        for value in row
                    ]
                    for row in rows
                )
                connection.executemany(f"INSERT INTO {table} VALUES ({marks})", changed)


def _is_history(table: str, value: Any) -> bool:
    return table == "history_node" and isinstance(value, bytes) and len(value) != len(uuid.uuid4().bytes)


def _exchanged(value: Any, words: Mapping[bytes, bytes]) -> Any:
    if isinstance(value, str):
        return _exchanged(value.encode(), words).decode()
    if isinstance(value, bytes):
        for one, another in words.items():
            value = value.replace(one, another)
    return value


def _history(data: bytes, cipher: PayloadCipher, original: Run, copy: Run) -> bytes:
    history, words = History.FromString(data), original.words(copy)
    for event in history.events:
        for payload in payloads_in(event):
            if payload.metadata.get("encoding") == ENCRYPTED:
                plain = cipher.decrypt(payload, NAMESPACE)
                plain.data = _exchanged(plain.data, words)
                of = plain.metadata.get(ACTIVITY, b"").decode()
                payload.CopyFrom(cipher.encrypt(plain, NAMESPACE, copy.workflow_id, of))
    return History.FromString(_exchanged(history.SerializeToString(), words)).SerializeToString()
