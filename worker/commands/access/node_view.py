"""The node as its files show it: pods, refused manifests, the runtime's state, and which services run.

Read without Temporal, so the commands work while Temporal, the worker or containerd are down.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from proto.interventions import Intervention, read_interventions
from proto.node_pressure import read_node_pressure
from proto.node_runtime import NodeRuntime, read_node_runtime
from proto.pod_snapshot import PodSnapshot, read_snapshots
from proto.refusals import Refusal, read_refusals
from worker.daemon.config import NodeConfig
from worker.daemon.node_lock import lock_holder, lock_path
from worker.telemetry.local_socket import failing_loops
from worker.telemetry.workflow_engine import WorkflowEngine, workflow_engine

ROLES: Final = ("worker", "poller")
ANSWER_WITHIN: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class NodeView:
    """Everything that `tempolet pods` shows."""

    pods: list[PodSnapshot] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    runtime: NodeRuntime | None = None
    absent: tuple[str, ...] = ()
    """Services that are not running: worker, poller."""
    interventions: list[Intervention] = field(default_factory=list)
    """What others did in Temporal: paused workflows and activities, foreign workflows."""
    troubles: tuple[str, ...] = ()
    """Loops of the services that fail now."""
    workflow_engine: WorkflowEngine | None = None
    """What the worker tells of Temporal."""
    pressure: frozenset[str] = frozenset()
    """Conditions of the node: MemoryPressure and the like."""


def read_node_view(config: NodeConfig) -> NodeView:
    """Read the node's files."""
    return NodeView(
        pods=sorted(
            read_snapshots(config.root_dir, whole_pods=True),
            key=lambda pod: (pod.namespace, pod.name, pod.started_at),
        ),
        refusals=read_refusals(config.root_dir),
        runtime=read_node_runtime(config.root_dir),
        absent=tuple(role for role in ROLES if lock_holder(lock_path(config.root_dir, role)) is None),
        interventions=read_interventions(config.root_dir),
        troubles=asyncio.run(failing_loops(config.state_dir, ROLES, ANSWER_WITHIN)),
        workflow_engine=asyncio.run(workflow_engine(config.state_dir, ANSWER_WITHIN)),
        pressure=read_node_pressure(config.root_dir),
    )


def notes(view: NodeView) -> Iterator[str]:
    """List the reasons why the table is incomplete or out of date."""
    for refusal in view.refusals:
        kept = f" ({refusal.pod} continues with the last valid version)" if refusal.pod_kept else ""
        what = f"waiting {refusal.pod}" if refusal.waits else f"refused {refusal.path}"
        yield f"{what}: {refusal.reason}: {refusal.message}{kept}"
    for one in view.interventions:
        yield f"{one.pod or one.workflow_id}: {one.reason}: {one.message}"
    for trouble in view.troubles:
        yield f"a part of this node fails and is tried again: {trouble}"
    if (engine := view.workflow_engine) is not None and (engine.away_since or engine.pods_led):
        is_away = engine.away_since is not None and not engine.name_taken
        yield f"Temporal is away {engine.message()}" if is_away else engine.message()
    if view.runtime is not None and not (view.runtime.ready and view.runtime.network_ready):
        what = "the container runtime" if not view.runtime.ready else "the runtime's network"
        since = f" since {view.runtime.since}" if view.runtime.since else ""
        why = ": ".join(filter(None, (view.runtime.reason, view.runtime.message)))
        yield f"{what} at {view.runtime.endpoint} is not ready{since}: {why}"
    if view.pressure:
        yield f"this node shows {', '.join(sorted(view.pressure))}: new pods may be refused, and running ones evicted"
    for role in view.absent:
        yield f"no {role} runs on this node: this is the last known state"


def short_age(age: timedelta) -> str:
    """Format an age as kubectl does: the two largest units, or one if that is large."""
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
