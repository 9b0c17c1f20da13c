"""The node process: the node's object and lease, its certificates, its HTTPS API; it does not use Temporal.

Called by `tempolet node`. Each part is one endless coroutine in a module of its own, and survives an API server or
runtime that is down; one that fails for another reason is restarted, and that is told.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Final

from activities.clients.call_timer import CallTimer
from activities.clients.runtime import RuntimeClient
from activities.clients.start_limit import StartLimit
from worker.api.server import serve_api
from worker.daemon.api_access import open_api
from worker.daemon.background import in_background
from worker.daemon.config import NodeConfig
from worker.daemon.freed_memory import giving_back_freed_memory
from worker.daemon.health import LoopHealth
from worker.daemon.loop_restarts import restart_on_error
from worker.daemon.node_lock import hold_node_lock
from worker.daemon.service import Service
from worker.machine.cgroup_driver import tiers_made
from worker.node.certificates.bootstrap import bootstrap
from worker.node.certificates.renewal import rotate_client_certificate, rotate_serving_certificate
from worker.node.lease import keep_lease
from worker.node.object.events import send_events
from worker.node.object.sync import sync_node
from worker.node.pod_resources.server import serve_pod_resources
from worker.node.process.dependencies import NodeDependencies
from worker.node.process.healthz import serving_healthz
from worker.node.process.node_metrics import NodeMetrics
from worker.node.process.peers import PeerProcesses
from worker.telemetry.local_socket import keep_serving_texts, socket_path
from worker.telemetry.process_state import PROCESS, state_of

PARTS: Final[Mapping[str, Callable[[NodeDependencies], Coroutine[object, object, None]]]] = {
    "client certificate": rotate_client_certificate,
    "serving certificate": rotate_serving_certificate,
    "api": serve_api,
    "pod resources": serve_pod_resources,
    "node": sync_node,
    "lease": keep_lease,
    "events": send_events,
}
"""The coroutines that run while the process lives, by name."""


async def run_node(config: NodeConfig) -> None:
    """Run the node process until asked to stop; raises NodeLockHeld if there is one already, KubeconfigRefused."""
    assert config.cluster is not None
    health = LoopHealth("node")
    processes = PeerProcesses(config.root_dir, tiers=partial(tiers_made, config.state_dir, config.cgroup_root))
    with hold_node_lock(config.root_dir, "node"):
        async with Service(health) as service, serving_healthz(config, health, processes), _telling(config, service):
            if not await _bootstrapped(config, service):
                return
            metrics = NodeMetrics(config.node_name, config.feature_gates)
            timed = (CallTimer(metrics.runtime_operation),)
            runtime = RuntimeClient(config.container_runtime_endpoint, StartLimit(1), timed)
            async with open_api(config, "node", metrics.api_request) as api:
                assert api is not None
                dependencies = NodeDependencies(
                    config=config,
                    cluster=config.cluster,
                    api=api,
                    runtime=runtime,
                    service=service,
                    processes=processes,
                    health=health,
                    metrics=metrics,
                )
                try:
                    await _run_parts(dependencies)
                finally:
                    await runtime.close()


def _telling(config: NodeConfig, service: Service) -> AbstractAsyncContextManager[None]:
    """Tell on a local socket whether this process works, while the block runs."""
    texts = {PROCESS: lambda: state_of(service)}
    return in_background("an endpoint", partial(keep_serving_texts, socket_path(config.state_dir, "node"), texts))


async def _run_parts(dependencies: NodeDependencies) -> None:
    """Run all parts until asked to stop; one that fails is restarted."""
    async with giving_back_freed_memory(dependencies.config.sync_frequency), asyncio.TaskGroup() as group:
        parts = [
            group.create_task(restart_on_error(name, partial(part, dependencies)), name=name)
            for name, part in PARTS.items()
        ]
        dependencies.service.ready(f"node {dependencies.config.node_name}")
        await dependencies.service.stop_requested()
        for one in parts:
            one.cancel()


async def _bootstrapped(config: NodeConfig, service: Service) -> bool:
    """Get a certificate if there is none yet; False if asked to stop in the meantime."""
    assert config.cluster is not None
    service.status("waiting for a certificate of this node to be approved and issued")
    getting = asyncio.create_task(bootstrap(config.cluster, config.node_name))
    stopping = asyncio.create_task(service.stop_requested())
    try:
        await asyncio.wait({getting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if getting.done():
            getting.result()
        return getting.done()
    finally:
        getting.cancel()
        stopping.cancel()
