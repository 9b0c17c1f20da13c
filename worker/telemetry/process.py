"""What one process shows of itself: /healthz, /metrics, spans, and the worker's decode endpoint, as configured.

Opened by worker and poller around everything else, before they connect to Temporal, so that a process that waits can be
asked why. A port that is taken is tried again every five seconds, as the kubelet does with its healthz: a restart may be
faster than the end of the process before.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import structlog
from temporalio.client import Plugin
from temporalio.runtime import Runtime

from activities.clients.observe import CallObserver
from worker.config import NodeConfig
from worker.endpoints.decode import CodecEndpointSettings, serve_codec
from worker.endpoints.server import Address, Endpoint, Route, healthz
from worker.keys import create_key_file, create_token_file
from worker.logs import core_logs
from worker.node_client import temporal_settings
from worker.telemetry.metrics import Metrics
from worker.telemetry.tracing import open_tracing
from worker.telemetry.tracing_settings import TracingSettings
from worker.temporal_client import connect_options

TRY_AGAIN: Final = timedelta(seconds=5)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Telemetry:
    """What the rest of the process counts with and connects with."""

    metrics: Metrics
    runtime: Runtime
    """The Temporal SDK's, for `Client.connect`."""
    plugins: tuple[Plugin, ...]
    """Tracing's, for `Client.connect`; none when it is off."""
    calls: CallObserver
    """For `RuntimeClient`: measures and traces CRI calls."""


@contextlib.asynccontextmanager
async def open_telemetry(config: NodeConfig, role: str, health: Callable[[], str]) -> AsyncIterator[Telemetry]:
    """Show this process (`worker` or `poller`) until the block ends; `health` is quick and gives a fault or nothing.

    Raises ValueError or KeyFileRefused for a decode endpoint that must not be opened.
    """
    metrics = Metrics(config.node_name)
    tracing = open_tracing(_tracing(config, role))

    async def check() -> str:
        return health()

    listening = [
        asyncio.create_task(_listen(open_endpoint))
        for open_endpoint in _endpoints(config, metrics, healthz(check, asyncio.get_running_loop()))
    ]
    try:
        runtime = metrics.sdk_runtime(served=bool(listening), logging=core_logs())
        yield Telemetry(metrics, runtime, tracing.plugins, CallObserver(metrics.runtime_operation))
    finally:
        for task in listening:
            task.cancel()
        await asyncio.gather(*listening, return_exceptions=True)
        await tracing.close()


Opening = Callable[[], Endpoint]


def _endpoints(config: NodeConfig, metrics: Metrics, health: Route) -> list[Opening]:
    """List what is to be opened; metrics without an address of their own stand beside healthz."""
    own = config.tempolet.metrics.bind_address
    at: dict[Address, dict[str, Route]] = {}
    if config.healthz_port:
        shown = {"/healthz": health} if own else {"/healthz": health, "/metrics": metrics.route}
        at[Address(config.healthz_bind_address, config.healthz_port)] = shown
    if own:
        at.setdefault(Address.parse(own), {})["/metrics"] = metrics.route
    openings = [_opening(address, routes) for address, routes in at.items()]
    if config.tempolet.codec.address:
        codec = _codec(config)
        openings.append(lambda: serve_codec(codec))
    return openings


def _opening(address: Address, routes: Mapping[str, Route]) -> Opening:
    return lambda: Endpoint(address, routes).start()


def _codec(config: NodeConfig) -> CodecEndpointSettings:
    create_key_file(config.payload_key_file)
    return CodecEndpointSettings(
        address=Address.parse(config.tempolet.codec.address),
        token=create_token_file(config.codec_token_file),
        key_file=config.payload_key_file,
        namespace=connect_options(temporal_settings(config))["namespace"],
        origins=frozenset(config.tempolet.codec.allowed_origins),
    )


def _tracing(config: NodeConfig, role: str) -> TracingSettings:
    service, node, block = f"tempolet-{role}", config.node_name, config.tracing
    if block is None:
        return TracingSettings(service, node)
    return TracingSettings(service, node, block.endpoint, block.sampling_rate_per_million)


async def _listen(open_endpoint: Opening) -> None:
    """Hold an endpoint open until cancelled."""
    said = ""
    while True:
        try:
            endpoint = open_endpoint()
            break
        except OSError as error:
            if str(error) != said:
                said = str(error)
                log.warning("cannot listen, trying again", error=said, seconds=TRY_AGAIN.total_seconds())
            await asyncio.sleep(TRY_AGAIN.total_seconds())
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.to_thread(endpoint.close)
