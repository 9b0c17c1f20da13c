"""/checkpoint: has the runtime write a running container's state to a file in `<root-dir>/checkpoints`.

As the kubelet (pkg/kubelet CheckpointContainer). The error of a runtime that does not support it is passed on. Unlike in
the kubelet, the disk cannot be filled with them (`checkpoint_files`).
"""

import asyncio
import re
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Final

from aiohttp import web

from activities.clients.cri_error import CriError
from proto.kubernetes.api_time import api_time
from worker.api.containers.checkpoint_files import lack_of_room, needed_bytes, remove_older
from worker.api.containers.named_pod import ContainerRequest, FoundPod, find_pod
from worker.api.responses.responses import Refused, json_response
from worker.node.process.dependencies import NodeDependencies
from workflows.decide.manifest.fields.field_errors import shortened

FOLDER: Final = "checkpoints"
_SECONDS: Final = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_LONGEST: Final = 3600
"""Maximum timeout in seconds that a client may ask for; the kubelet has no limit."""
_AT_ONCE: Final = 2
_under_way = asyncio.Semaphore(_AT_ONCE)


async def handler(request: web.Request, node: NodeDependencies) -> web.StreamResponse:
    """Checkpoint a container and answer the file's path."""
    asked = ContainerRequest.of(request)
    found = await find_pod(node.config.root_dir, asked)
    if asked.container not in found.containers():
        raise Refused(HTTPStatus.NOT_FOUND, f"container {shortened(asked.container)} does not exist")
    timeout = seconds(request.query.getall("timeout", []))
    if _under_way.locked():
        raise Refused(HTTPStatus.TOO_MANY_REQUESTS, "too many checkpoints at a time; try again")
    async with _under_way:
        location = await _checkpointed(node, found, asked, timeout)
    return json_response({"items": [str(location)]})


def seconds(given: list[str]) -> int:
    """Return the last of the given timeouts, 0 without one. Raises Refused."""
    if not given:
        return 0
    if not _SECONDS.fullmatch(given[-1]) or int(given[-1]) > _LONGEST:
        raise Refused(HTTPStatus.NOT_FOUND, "cannot parse value of timeout parameter")
    return int(given[-1])


async def _checkpointed(node: NodeDependencies, found: FoundPod, asked: ContainerRequest, timeout_seconds: int) -> Path:
    """Call the runtime; raises Refused in the kubelet's words."""
    folder = node.config.root_dir / FOLDER
    now = datetime.now(UTC)
    location = folder / f"checkpoint-{found.full_name}-{asked.container}-{api_time(now)}.tar"
    container_id = found.running(asked.container)
    if not container_id:
        raise _failed(asked, f"container {asked.container} not found")
    if timeout_seconds < 0:
        raise _failed(asked, "CheckpointContainer requires the timeout value to be > 0")
    try:
        await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
        needed = needed_bytes(await node.runtime.container_stats(container_id))
        if lack := await asyncio.to_thread(lack_of_room, folder, needed):
            raise Refused(HTTPStatus.INSUFFICIENT_STORAGE, lack)
        await node.runtime.checkpoint_container(container_id, location, timeout_seconds)
        await asyncio.to_thread(remove_older, folder)
    except (CriError, OSError) as error:
        await asyncio.to_thread(location.unlink, missing_ok=True)
        raise _failed(asked, error) from error
    return location


def _failed(asked: ContainerRequest, why: object) -> Refused:
    what = f"{asked.namespace}/{asked.pod}/{asked.container}"
    return Refused(HTTPStatus.INTERNAL_SERVER_ERROR, f"checkpointing of {what} failed ({why})")
