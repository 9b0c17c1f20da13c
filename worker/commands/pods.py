"""`tempolet pods`: what runs on this node, what was refused, and whether the runtime answers.

Reads the node's caches only (`proto/pod_snapshot.py`, `proto/refusals.py`, `proto/node_runtime.py`), so it works while
Temporal, worker or containerd are away, and then says that they are.
"""

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from proto.node_runtime import NodeRuntime, read_node_runtime
from proto.pod_snapshot import PodSnapshot, read_snapshots
from proto.refusals import Refusal, read_refusals
from worker.daemon.config import NodeConfig
from worker.daemon.node_lock import lock_holder, lock_path
from worker.documents.printable import printable

BETWEEN_LOOKS: Final = timedelta(milliseconds=500)
ROLES: Final = ("worker", "poller")
COLUMNS: Final = ("NAMESPACE", "NAME", "READY", "PHASE", "RESTARTS", "AGE", "REASON")
WIDE_COLUMNS: Final = (*COLUMNS, "IP", "UID", "SOURCE")


@dataclass(frozen=True, slots=True)
class NodeView:
    """Everything the command shows, read in one look."""

    pods: list[PodSnapshot] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    runtime: NodeRuntime | None = None
    absent: tuple[str, ...] = ()
    """The services that nobody runs: worker, poller."""


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


def look(config: NodeConfig) -> NodeView:
    """Read the node's caches."""
    return NodeView(
        pods=sorted(read_snapshots(config.root_dir), key=lambda pod: (pod.namespace, pod.name, pod.started_at)),
        refusals=read_refusals(config.root_dir),
        runtime=read_node_runtime(config.root_dir),
        absent=tuple(role for role in ROLES if lock_holder(lock_path(config.root_dir, role)) is None),
    )


def row(pod: PodSnapshot, now: datetime) -> tuple[str, ...]:
    """Say one pod in the columns of the wide table."""
    statuses = pod.status.get("containerStatuses", [])
    wanted = len(statuses) or len(pod.containers)
    ready = sum(1 for one in statuses if one.get("ready"))
    phase = "Terminating" if pod.deleting else pod.phase
    reason = f"{pod.reason}: {pod.message}" if pod.message else pod.reason
    reason = "; ".join(filter(None, (reason, *looked_into(pod))))
    ips = ",".join(one["ip"] for one in pod.status.get("podIPs", []) if "ip" in one)
    age = short_age(now - datetime.fromisoformat(pod.started_at)) if pod.started_at else ""
    return (
        *(pod.namespace, pod.name, f"{ready}/{wanted}", phase, str(pod.restarts), age, reason),
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


def notes(view: NodeView) -> Iterator[str]:
    """Say what keeps the table from being the whole or the current truth."""
    for refusal in view.refusals:
        kept = f" ({refusal.pod} of its last good version goes on)" if refusal.pod_kept else ""
        yield f"refused {refusal.path}: {refusal.reason}: {refusal.message}{kept}"
    if view.runtime is not None and not (view.runtime.ready and view.runtime.network_ready):
        what = "the container runtime" if not view.runtime.ready else "the runtime's network"
        since = f" since {view.runtime.since}" if view.runtime.since else ""
        why = ": ".join(filter(None, (view.runtime.reason, view.runtime.message)))
        yield f"{what} at {view.runtime.endpoint} is not ready{since}: {why}"
    for role in view.absent:
        yield f"no {role} runs on this node: what stands here is the last that was known"


def short_age(age: timedelta) -> str:
    """Say an age as kubectl does: its two largest units, one where the first is large."""
    seconds = max(0, int(age.total_seconds()))
    if seconds < 120:
        return f"{seconds}s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    return f"{days}d{hours % 24}h" if days < 8 and hours % 24 else f"{days}d"


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
