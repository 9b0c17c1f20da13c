"""What a process exposes: /healthz, /metrics, traces, and the worker's decode endpoint, as configured.

Worker and poller open it before they connect to Temporal, so that it shows what a process waits for.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from temporalio.client import Plugin
from temporalio.runtime import Runtime

from activities.clients.observe import CallObserver
from worker.daemon.background import in_background
from worker.daemon.config import NodeConfig
from worker.daemon.logs import core_logs
from worker.daemon.node_client import temporal_settings
from worker.daemon.troubles import TROUBLES as PROCESS_TROUBLES
from worker.endpoints.decode import CodecEndpointSettings, serve_codec
from worker.endpoints.listen import Opening, keep_open, opener
from worker.endpoints.server import Address, Route, healthz
from worker.telemetry.local_socket import METRICS, PROBES, TROUBLES, keep_serving_texts, socket_path
from worker.telemetry.metrics import Metrics
from worker.telemetry.tracing import open_tracing
from worker.telemetry.tracing_settings import TracingSettings
from worker.temporal.keys import create_key_file, create_token_file
from worker.temporal.temporal_client import connect_options


@dataclass(frozen=True, slots=True)
class Telemetry:
    """What the rest of the process counts and connects with."""

    metrics: Metrics
    runtime: Runtime
    """The Temporal SDK's, for `Client.connect`."""
    plugins: tuple[Plugin, ...]
    """For tracing, for `Client.connect`; empty if it is off."""
    calls: CallObserver
    """For `RuntimeClient`: measures and traces CRI calls."""
    texts: dict[str, Callable[[], bytes]] = field(default_factory=dict)
    """What the local socket serves, by name; the process may add to it. Each is called in a thread."""


@contextlib.asynccontextmanager
async def open_telemetry(config: NodeConfig, role: str, health: Callable[[], str]) -> AsyncIterator[Telemetry]:
    """Serve this process's endpoints (`worker` or `poller`) while the block runs.

    `health` returns quickly, with an error or "". Raises ValueError or KeyFileRefused for a decode endpoint that must not be
    opened.
    """
    metrics = Metrics(config.node_name)
    tracing = open_tracing(_tracing(config, role))

    async def check() -> str:
        return health() or "; ".join(PROCESS_TROUBLES.lines())

    openings = _endpoints(config, metrics, healthz(check, asyncio.get_running_loop()))
    texts: dict[str, Callable[[], bytes]] = {TROUBLES: _troubles}
    if config.cluster is not None:  # the node process serves the metrics of all
        texts |= {METRICS: metrics.render, PROBES: metrics.render_probes}
    loops = [partial(keep_open, one) for one in openings]
    loops.append(partial(keep_serving_texts, socket_path(config.state_dir, role), texts))
    try:
        async with contextlib.AsyncExitStack() as listening:
            for one in loops:
                await listening.enter_async_context(in_background("an endpoint", one))
            runtime = metrics.sdk_runtime(served=bool(openings) or config.cluster is not None, logging=core_logs())
            yield Telemetry(metrics, runtime, tracing.plugins, CallObserver(metrics.runtime_operation), texts)
    finally:
        await tracing.close()


def _troubles() -> bytes:
    return "".join(f"{line}\n" for line in PROCESS_TROUBLES.lines()).encode()


def _endpoints(config: NodeConfig, metrics: Metrics, health: Route) -> list[Opening]:
    """Return the endpoints to open; metrics without an address of their own are served beside healthz."""
    own = config.tempolet.metrics.bind_address
    numbers: dict[str, Route] = {"/metrics": metrics.route, "/metrics/probes": metrics.probes_route}
    at: dict[Address, dict[str, Route]] = {}
    if config.healthz_port:
        shown = {"/healthz": health} if own else {"/healthz": health, **numbers}
        at[Address(config.healthz_bind_address, config.healthz_port)] = shown
    if own:
        at.setdefault(Address.parse(own), {}).update(numbers)
    openings = [opener(address, routes) for address, routes in at.items()]
    keys = config.tempolet.codec
    if keys.address:
        token = create_token_file(config.codec_token_file)
        openings.append(partial(serve_codec, _codec(config, Address.parse(keys.address), token)))
    if keys.socket:
        openings.append(partial(serve_codec, _codec(config, keys.socket, "")))
    return openings


def _codec(config: NodeConfig, address: Address | Path, token: str) -> CodecEndpointSettings:
    create_key_file(config.payload_key_file)
    return CodecEndpointSettings(
        address=address,
        token=token,
        key_file=config.payload_key_file,
        namespace=connect_options(temporal_settings(config))["namespace"],
        origins=frozenset(config.tempolet.codec.allowed_origins),
    )


def _tracing(config: NodeConfig, role: str) -> TracingSettings:
    service, node, block = f"tempolet-{role}", config.node_name, config.tracing
    if block is None:
        return TracingSettings(service, node)
    return TracingSettings(service, node, block.endpoint, block.sampling_rate_per_million)
