"""`tempolet pods`: what runs on this node, which manifests are refused, and whether the runtime is ready.

Reads only the node's files, so it works while Temporal, the worker or containerd are down, and then says so.
"""

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from proto.pod_snapshot import PodSnapshot
from worker.commands.access.node_view import ROLES, NodeView, notes, read_node_view, short_age
from worker.daemon.config import NodeConfig
from worker.documents.printable import printable
from worker.telemetry.workflow_engine import WorkflowEngine

BETWEEN_LOOKS: Final = timedelta(milliseconds=500)
COLUMNS: Final = ("NAMESPACE", "NAME", "READY", "PHASE", "RESTARTS", "AGE", "REASON")
WIDE_COLUMNS: Final = (*COLUMNS, "IP", "UID", "SOURCE")


def show(config: NodeConfig, *, output: str, watch: bool) -> None:
    """Print the pods; with `watch`, again after each change, until interrupted."""
    before: NodeView | None = None
    while True:
        view = read_node_view(config)
        if view != before:
            _print(view, output, config.root_dir)
        if not watch:
            return
        before = view
        sys.stdout.flush()
        time.sleep(BETWEEN_LOOKS.total_seconds())


def row(pod: PodSnapshot, now: datetime) -> tuple[str, ...]:
    """Format one pod as the columns of the wide table."""
    statuses = pod.status.get("containerStatuses", [])
    total = len(statuses) or len((pod.pod.get("spec") or {}).get("containers") or pod.containers)
    ready = sum(1 for one in statuses if one.get("ready"))
    phase = "Terminating" if pod.deleting else pod.phase
    reason = f"{pod.reason}: {pod.message}" if pod.message else pod.reason
    reason = "; ".join(filter(None, (reason, *debug_notes(pod))))
    ips = ",".join(one["ip"] for one in pod.status.get("podIPs", []) if "ip" in one)
    age = short_age(now - datetime.fromisoformat(pod.started_at)) if pod.started_at else ""
    return (
        *(pod.namespace, pod.name, f"{ready}/{total}", phase, str(pod.restarts), age, reason),
        *(ips, pod.uid, pod.path or pod.source),
    )


def debug_notes(pod: PodSnapshot) -> Iterator[str]:
    """Describe ephemeral containers that run or wait; no other column counts them."""
    for one in pod.status.get("ephemeralContainerStatuses", []):
        state = one.get("state", {})
        if "running" in state:
            yield f"{one['name']} is debugging it"
        elif "waiting" in state:
            yield f"{one['name']} is about to debug it ({state['waiting'].get('reason', 'waiting')})"


def _print(view: NodeView, output: str, root_dir: Path) -> None:
    if output == "json":
        print(json.dumps(as_json(view), indent=2))
        return
    _print_table(view, wide=output == "wide")
    for note in notes(view):
        print(printable(note))
    if view.absent == ROLES:
        print(
            f"looked in {root_dir}: set TEMPOLET_RUN_DIR to find a node that `tempolet up` started with another --run-dir, "
            "use --root-dir for any other"
        )


def as_json(view: NodeView) -> dict[str, Any]:
    """Return the whole view as JSON."""
    return {
        "pods": [asdict(replace(pod, pod={})) for pod in view.pods],  # a pod has values of variables
        "refused": [asdict(one) for one in view.refusals],
        "runtime": asdict(view.runtime) if view.runtime else None,
        "absent": list(view.absent),
        "interventions": [asdict(one) for one in view.interventions],
        "troubles": list(view.troubles),
        "workflow_engine": _engine_json(view.workflow_engine),
    }


def _engine_json(engine: WorkflowEngine | None) -> dict[str, Any] | None:
    if engine is None:
        return None
    since = engine.away_since.isoformat() if engine.away_since else None
    return asdict(engine) | {"away_since": since}


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
    console = Console(width=10_000)  # whole lines for a pipe, without padding to a terminal's width
    with console.capture() as capture:
        console.print(table)
    for line in capture.get().splitlines():
        print(line.rstrip())
