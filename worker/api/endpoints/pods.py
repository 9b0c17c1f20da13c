"""/pods: the pods that this node is to run, with the status that it gives them.

From the worker's cache (`pod.json`, `observed.json`), so nobody's workflow is asked. Items have neither kind nor apiVersion, as
the kubelet's.
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
    """Write a PodList as the kubelet does."""
    return json.dumps(
        {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}, separators=(",", ":")
    ).encode()


def node_pods(root_dir: Path) -> Iterator[Json]:
    """Give each pod of the node with its status. Blocks; one that is torn, or goes meanwhile, is left out."""
    for snapshot in read_snapshots(root_dir):
        try:
            pod = json.loads(pod_path(root_dir, snapshot.uid).read_bytes())
        except (OSError, ValueError):
            continue
        if isinstance(pod, dict):
            yield shown(pod, snapshot)


def shown(pod: Mapping[str, Any], snapshot: PodSnapshot) -> Json:
    """Give the pod as its source has it, with the status that we see."""
    kept = {key: value for key, value in pod.items() if key not in {"kind", "apiVersion", "status"}}
    return {**kept, "status": snapshot.status}


def _written(root_dir: Path) -> bytes:
    return pod_list(list(node_pods(root_dir)))
