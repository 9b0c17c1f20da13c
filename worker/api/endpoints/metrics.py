"""/metrics and its sub-paths, for dashboards and alerts made for a kubelet.

/metrics merges the metrics of the node's three processes. If one does not answer within a few seconds, its series are missing
and `tempolet_process_metrics_up` is 0.
"""

import asyncio
from collections.abc import Collection
from datetime import timedelta
from functools import partial
from typing import Final

import structlog
from aiohttp import web

from worker.node.process.dependencies import NodeDependencies
from worker.node.process.healthz import sync_loop
from worker.telemetry.exposition import CONTENT_TYPE, Family, render
from worker.telemetry.local_socket import METRICS, PROBES, TextUnavailable, fetch_text, socket_path
from worker.telemetry.merged_metrics import NODE, POLLER, WORKER, merged_families

WITHIN: Final = timedelta(seconds=4)
"""Time limit for worker and poller; Prometheus' own default is ten seconds."""

log = structlog.get_logger(__name__)


async def handler(_: web.Request, node: NodeDependencies) -> web.StreamResponse:
    """Answer /metrics."""
    return _answer(await node.stats.shared.run("metrics", partial(_whole, node), "/metrics"))


async def _whole(node: NodeDependencies) -> bytes:
    volumes = asyncio.ensure_future(node.stats.volume_families())
    texts = dict(
        zip(
            (WORKER, POLLER), await asyncio.gather(*(_ask(node, one, METRICS) for one in (WORKER, POLLER))), strict=True
        )
    )
    known = {process: text for process, text in texts.items() if text is not None}
    families = merged_families({**known, NODE: node.metrics.render(node.certificates)})
    families += [_up(known.keys()), *await volumes, await node.stats.log_family()]
    return render(families)


async def cadvisor(_: web.Request, node: NodeDependencies) -> web.StreamResponse:
    """Answer /metrics/cadvisor."""
    return _answer(await node.stats.cadvisor())


async def resource(_: web.Request, node: NodeDependencies) -> web.StreamResponse:
    """Answer /metrics/resource."""
    return _answer(await node.stats.resource())


async def probes(_: web.Request, node: NodeDependencies) -> web.StreamResponse:
    """Answer /metrics/probes, which the worker counts."""
    text = await _ask(node, WORKER, PROBES)
    if text is None:
        return web.Response(status=503, text="the worker does not answer; see its log and `systemctl status`")
    return _answer(text.encode())


async def slis(_: web.Request, node: NodeDependencies) -> web.StreamResponse:
    """Answer /metrics/slis: the current result of /healthz, and how often it was checked."""
    return _answer(node.metrics.render_slis(sync_loop(node.health, node.processes)))


async def _ask(node: NodeDependencies, process: str, name: str) -> str | None:
    try:
        return await fetch_text(socket_path(node.config.state_dir, process), name, WITHIN)
    except TextUnavailable as error:
        log.debug("a process did not send its metrics", process=process, err=str(error))
        return None


def _up(known: Collection[str]) -> Family:
    family = Family("tempolet_process_metrics_up", "1: the process has sent its metrics.", "gauge")
    for process in (WORKER, POLLER):
        family.add(int(process in known), f'process="{process}"')
    return family


def _answer(text: bytes) -> web.Response:
    return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE})
