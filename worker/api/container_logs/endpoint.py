"""/containerLogs/{podNamespace}/{podID}/{containerName}: the log of a container (kubectl logs).

pkg/kubelet/server/server.go getContainerLogs. The log file is read with the reader of `tempolet logs`. The runtime is not
called, so logs are available while it is down.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final

from aiohttp import web

from activities.files.pod_paths import PodPaths
from activities.logs.log_files import ContainerLog
from activities.logs.runs import StillRunning, log_of_run
from proto.pod_snapshot import ContainerSnapshot
from proto.temporal.pod import PodKey
from worker.api.container_logs.batches import batches
from worker.api.container_logs.options import parse_log_request
from worker.api.container_logs.runs import NoLog, run_to_show
from worker.api.containers.named_pod import ContainerRequest, FoundPod, find_pod, quoted
from worker.api.responses.responses import Refused
from worker.node.process.dependencies import NodeDependencies
from worker.settings.kubelet.feature_gates import SPLIT_LOGS_GATE

HEADERS: Final = {"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff"}
LOOKS: Final = 5
BETWEEN_LOOKS: Final = 0.1
"""During a rotation the log file is missing for a moment; one that is missing longer is gone."""


async def handler(request: web.Request, node: NodeDependencies) -> web.StreamResponse:
    """Send a log and, with `follow`, what is appended to it; raises Refused."""
    split = node.config.feature_gates.enabled(SPLIT_LOGS_GATE)
    wanted = parse_log_request(request.query, datetime.now(UTC), split_streams=split)
    asked = ContainerRequest.of(request)
    pod = await find_pod(node.config.root_dir, asked, f"pod {quoted(asked.pod)} does not exist")
    if asked.container not in pod.containers():
        sentence = f"container {quoted(asked.container)} not found in pod {quoted(asked.pod)}"
        raise Refused(HTTPStatus.NOT_FOUND, sentence)
    try:
        run = run_to_show(pod.snapshot.status, asked.pod, asked.container, previous=wanted.previous)
    except NoLog as error:
        raise Refused(HTTPStatus.BAD_REQUEST, str(error)) from None
    log = await _log(node, pod, asked, run)
    running = StillRunning(log, run) if wanted.follow else None
    async with aclosing(batches(log, wanted.options, running)) as texts:
        patience = node.cluster.serving.streaming_idle.total_seconds() or None
        return await _sent(request, texts, log, patience)


async def _sent(
    request: web.Request, texts: AsyncGenerator[bytes, None], log: ContainerLog, patience: float | None
) -> web.StreamResponse:
    """Send batches to a client that must accept each within `patience` seconds.

    A log that cannot be read is refused as long as nothing was sent.
    """
    response = web.StreamResponse(headers=HEADERS)
    try:
        async for text in texts:
            if not response.prepared:
                await response.prepare(request)
            if text:
                async with asyncio.timeout(patience):
                    await response.write(text)
            elif request.transport is None or request.transport.is_closing():
                break
    except ConnectionError:
        return response  # the client has disconnected
    except OSError as error:
        if response.prepared:
            raise  # also a TimeoutError, which is an OSError: the middleware aborts the connection
        raise Refused(HTTPStatus.BAD_REQUEST, f"failed to open log file {quoted(str(log))}: {error.strerror}") from None
    return response


async def _log(node: NodeDependencies, pod: FoundPod, asked: ContainerRequest, run: str) -> ContainerLog:
    """Return the log of a run, waiting a moment for one that is being rotated; raises Refused."""
    config, found = node.config, pod.snapshot
    paths = PodPaths(config.root_dir, config.pod_logs_dir, PodKey(found.namespace, found.name, found.uid))
    newest = found.containers.get(asked.container, ContainerSnapshot(run))
    with suppress(FileNotFoundError):
        for _ in range(LOOKS):
            if (log := await asyncio.to_thread(log_of_run, paths, asked.container, newest, run)) is None:
                break
            if await asyncio.to_thread(log.path.exists):
                return log
            await asyncio.sleep(BETWEEN_LOOKS)
    raise Refused(HTTPStatus.BAD_REQUEST, f"unable to retrieve container logs for containerd://{run}")
