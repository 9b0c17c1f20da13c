"""`tempolet pods`: what runs on this node, what was refused, and whether the runtime answers.

Reads the node's caches only (`proto/pod_snapshot.py`, `proto/refusals.py`, `proto/node_runtime.py`), so it works while
Temporal, worker or containerd are away, and then says that they are.
"""

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from proto.pod_snapshot import PodSnapshot
from worker.commands.access.node_view import ROLES, NodeView, look, notes, short_age
from worker.daemon.config import NodeConfig
from worker.documents.printable import printable

BETWEEN_LOOKS: Final = timedelta(milliseconds=500)
COLUMNS: Final = ("NAMESPACE", "NAME", "READY", "PHASE", "RESTARTS", "AGE", "REASON")
WIDE_COLUMNS: Final = (*COLUMNS, "IP", "UID", "SOURCE")


def show(config: NodeConfig, *, output: str, watch: bool) -> None:
    """Print the pods; with `watch` again at each change, until interrupted."""
    before: NodeView | None = None
    while True:
        view = look(config)
        if view != before:
            _print(view, output, config.root_dir)
        if not watch:
            return
        before = view
        sys.stdout.flush()
        time.sleep(BETWEEN_LOOKS.total_seconds())


def row(pod: PodSnapshot, now: datetime) -> tuple[str, ...]:
    """Say one pod in the columns of the wide table."""
    statuses = pod.status.get("containerStatuses", [])
    total = len(statuses) or len(pod.containers)
    ready = sum(1 for one in statuses if one.get("ready"))
    phase = "Terminating" if pod.deleting else pod.phase
    reason = f"{pod.reason}: {pod.message}" if pod.message else pod.reason
    reason = "; ".join(filter(None, (reason, *looked_into(pod))))
    ips = ",".join(one["ip"] for one in pod.status.get("podIPs", []) if "ip" in one)
    age = short_age(now - datetime.fromisoformat(pod.started_at)) if pod.started_at else ""
    return (
        *(pod.namespace, pod.name, f"{ready}/{total}", phase, str(pod.restarts), age, reason),
        *(ips, pod.uid, pod.path or pod.source),
    )


def looked_into(pod: PodSnapshot) -> Iterator[str]:
    """Say which ephemeral containers run in it or are to; they count for none of the other columns."""
    for one in pod.status.get("ephemeralContainerStatuses", []):
        state = one.get("state", {})
        if "running" in state:
            yield f"{one['name']} looks into it"
        elif "waiting" in state:
            yield f"{one['name']} is to look into it ({state['waiting'].get('reason', 'waiting')})"


def _print(view: NodeView, output: str, root_dir: Path) -> None:
    if output == "json":
        print(json.dumps(as_json(view), indent=2))
        return
    _print_table(view, wide=output == "wide")
    for note in notes(view):
        print(printable(note))
    if view.absent == ROLES:
        print(
            f"looked in {root_dir}: a node of `tempolet up` elsewhere is found by TEMPOLET_RUN_DIR (its --run-dir), "
            "any other by --root-dir"
        )


def as_json(view: NodeView) -> dict[str, Any]:
    """Give the whole view as JSON."""
    return {
        "pods": [asdict(pod) for pod in view.pods],
        "refused": [asdict(one) for one in view.refusals],
        "runtime": asdict(view.runtime) if view.runtime else None,
        "absent": list(view.absent),
    }


def _print_table(view: NodeView, *, wide: bool) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if not view.pods:
        print("no pods on this node")
        return
    columns = WIDE_COLUMNS if wide else COLUMNS
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, no_wrap=column != "REASON", overflow="fold")
    now = datetime.now(UTC)
    for pod in view.pods:
        table.add_row(*(Text(printable(cell)) for cell in row(pod, now)[: len(columns)]))
    if sys.stdout.isatty():
        Console().print(table)
        return
    console = Console(width=10_000)  # a pipe gets whole lines, without the padding of a terminal's
    with console.capture() as capture:
        console.print(table)
    for line in capture.get().splitlines():
        print(line.rstrip())
