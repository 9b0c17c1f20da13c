"""Reads the logs and the history of a pod on the node under test."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from temporalio.api.history.v1 import HistoryEvent

from proto.pod_snapshot import PodSnapshot
from proto.temporal.names import NAMESPACE
from tests.node.tempolet_node import TempoletNode
from worker.history.story import build_story
from worker.temporal.codec import PayloadCipher
from worker.temporal.decoded_history import decode_history
from worker.temporal.keys import KeyFile


def story(node: TempoletNode, snapshot: PodSnapshot) -> list[str]:
    """Return the lines of the pod's story."""
    return [line.text for line in build_story([asyncio.run(_events(node, snapshot))]).lines]


def history_text(node: TempoletNode, snapshot: PodSnapshot) -> str:
    """Return the pod's whole history as text, with decrypted payloads."""
    return "\n".join(str(event) for event in asyncio.run(_events(node, snapshot)))


async def _events(node: TempoletNode, snapshot: PodSnapshot) -> Sequence[HistoryEvent]:
    history = await (await node.workflow(snapshot)).fetch_history()
    return decode_history(history, PayloadCipher(KeyFile(node.temporal_settings().key_file)), NAMESPACE).events


def log_path(node: TempoletNode, snapshot: PodSnapshot, container: str = "main", file: str = "0") -> Path:
    """Return the path of a container's log."""
    return node.logs / f"default_{snapshot.name}_{snapshot.uid}" / container / f"{file}.log"


def timed_lines(log: Path) -> list[tuple[datetime, str]]:
    """Read the lines of a log and their times, without a line that is still being written."""
    lines = (line.split(" ", 3) for line in log.read_text().rpartition("\n")[0].splitlines())
    return [(datetime.fromisoformat(at), text) for at, _, _, text in lines]


def log_lines(log: Path) -> list[str]:
    """Read the lines of a log."""
    return [text for _, text in timed_lines(log)] if log.exists() else []


def until_logged(node: TempoletNode, log: Path, last: str) -> list[str]:
    """Wait until a container has logged the line `last`; returns all lines so far."""
    found: list[str] = node.until(lambda: last in (lines := log_lines(log)) and lines, f"{last!r} said in {log}")
    return found
