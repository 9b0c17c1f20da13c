"""/pods: the pods bound to this node, with their status.

Read from the worker's cache (`pod.json`, `observed.json`), so no workflow is queried. Items have neither kind nor apiVersion,
as the kubelet's.
"""

import asyncio
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from aiohttp import web

from proto.pod_snapshot import PodSnapshot, pod_path, read_snapshots
from worker.api.responses.responses import raw_json_response
from worker.node.process.dependencies import NodeDependencies

Json = dict[str, Any]


async def handler(_: web.Request, node: NodeDependencies) -> web.StreamResponse:
    """Answer a PodList."""
    return raw_json_response(await asyncio.to_thread(_written, node.config.root_dir))


def pod_list(items: list[Json]) -> bytes:
    """Encode a PodList as the kubelet does."""
    return json.dumps(
        {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}, separators=(",", ":")
    ).encode()


def node_pods(root_dir: Path) -> Iterator[Json]:
    """Yield each pod of the node with its status. Blocks; a pod whose file is incomplete or removed meanwhile is skipped."""
    for snapshot in read_snapshots(root_dir):
        try:
            pod = json.loads(pod_path(root_dir, snapshot.uid).read_bytes())
        except (OSError, ValueError):
            continue
        if isinstance(pod, dict):
            yield with_status(pod, snapshot)


def with_status(pod: Mapping[str, Any], snapshot: PodSnapshot) -> Json:
    """Return the pod as its source has it, with the status of this node."""
    kept = {key: value for key, value in pod.items() if key not in {"kind", "apiVersion", "status"}}
    return {**kept, "status": snapshot.status}


def _written(root_dir: Path) -> bytes:
    return pod_list(list(node_pods(root_dir)))
