"""`tempolet worker` and `tempolet poller`: what systemd runs, in the foreground until SIGTERM.

Called by `cli.main` before any command-line library is imported, for these processes live for months and every megabyte
counts (design: 230 MB for both). The order is the same for both: flags, configuration, logs, whose import names these are,
then the service itself.
"""

import asyncio
import contextlib
import sys
from collections.abc import Sequence
from typing import Final

from worker.config import NodeConfig, load_node_config
from worker.lean_imports import bare_kubernetes, bare_temporalio, without
from worker.node_lock import hold_lock_file
from worker.ownership import refuse_second_owners
from worker.settings.flags import node_parser, parse_node_flags

SERVICES: Final = {
    "worker": "Run the pods of this node: hosts the workflows and activities. Needs root.",
    "poller": "Watch the manifests and the container runtime, and tell the workflows. Needs root.",
}


def serve(name: str, arguments: Sequence[str]) -> None:
    """Run a service until it is told to stop; raises whatever keeps it from starting."""
    parser = node_parser(f"tempolet {name}", SERVICES[name])
    if {"-h", "--help"} & set(arguments):
        parser.print_help(sys.stdout)
        return
    config = load_node_config(parse_node_flags(parser, arguments))
    bare_kubernetes()
    bare_temporalio()
    with without("rich"):  # structlog takes it wherever it is, to colour tracebacks that we never print: 5 MB
        _start(name, config)


def _start(name: str, config: NodeConfig) -> None:
    import structlog

    from worker.logs import set_up_logs

    set_up_logs(config.logging)
    refuse_second_owners()
    log = structlog.get_logger(__name__)
    for warning in config.warnings:
        log.warning(warning)
    log.info("Starting tempolet", command=name, node=config.node_name, rootDir=config.root_dir)
    with contextlib.ExitStack() as stack:
        if name == "worker" and config.lock_file is not None:
            stack.enter_context(hold_lock_file(config.lock_file, name))
        asyncio.run(_worker(config) if name == "worker" else _poller(config))


async def _worker(config: NodeConfig) -> None:
    from worker.host.run import run_worker

    await run_worker(config)


async def _poller(config: NodeConfig) -> None:
    from worker.node_client import node_client
    from worker.poller.run import PollerHealth, Watching, run_poller
    from worker.service import Service
    from worker.telemetry.process import open_telemetry

    health = PollerHealth()
    async with Service(health) as service, open_telemetry(config, "poller", health) as telemetry:
        client = await node_client(config, service, role="poller", runtime=telemetry.runtime, plugins=telemetry.plugins)
        if client is not None:
            await run_poller(config, client, service, Watching(health, telemetry))
