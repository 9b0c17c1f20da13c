"""Snapshots as the worker writes them, for the poller's tests."""

from collections.abc import Mapping
from pathlib import Path

from proto.pod_snapshot import ContainerSnapshot, PodSnapshot, snapshot_path
from proto.temporal.pod import ContainerState

RUNNING, EXITED = ContainerState.RUNNING, ContainerState.EXITED


def snapshot(
    uid: str,
    containers: Mapping[str, str] | None = None,
    *,
    sandbox_id: str = "s1",
    node: str = "n",
    name: str = "web",
    path: str = "",
    ends_awaited: tuple[str, ...] = (),
) -> PodSnapshot:
    """Build a snapshot of a pod in namespace default; containers are given as name: "id state [attempt]"."""
    known = {}
    for container, said in (containers or {}).items():
        container_id, state, *attempt = said.split()
        known[container] = ContainerSnapshot(
            container_id, f"CONTAINER_{state.upper()}", int(attempt[0]) if attempt else 0
        )
    return PodSnapshot(
        workflow_id=f"pod/{node}/default/{name}/{uid}",
        node=node,
        namespace="default",
        name=name,
        uid=uid,
        source="file",
        path=path,
        lifecycle="sync",
        sandbox_id=sandbox_id,
        sandbox_ready=bool(sandbox_id),
        containers=known,
        ends_awaited=ends_awaited,
    )


def write(root_dir: Path, one: PodSnapshot) -> None:
    """Put it where the worker does, atomically."""
    path = snapshot_path(root_dir, one.uid)
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_bytes(one.to_json())
    new.replace(path)
