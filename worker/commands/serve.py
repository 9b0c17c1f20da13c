"""`tempolet worker`, `poller` and `node`: the services that systemd runs, in the foreground until SIGTERM.

Called by `cli.main` before any command-line library is imported: these processes run for months and are to stay small
(230 MB for worker and poller, 330 MB with the node process). Each one parses its flags, loads its configuration, sets
up logging, checks that no other package owns its import names, and runs the service.
"""

import asyncio
import contextlib
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Final

from worker.commands.access.exits import is_unforeseen
from worker.daemon.config import NodeConfig, load_node_config
from worker.daemon.lean_imports import bare_aiohttp, bare_kubernetes, bare_temporalio, without
from worker.daemon.node_lock import hold_lock_file
from worker.daemon.ownership import refuse_second_owners
from worker.machine.private_memory import keep_memory_private
from worker.settings.flags import Flags, node_parser, parse_node_flags
from worker.settings.kubelet.configuration import ConfigurationRefused

HEALTHZ_PORT: Final = "healthzPort"
SERVICES: Final = {
    "worker": "Run the pods of this node: hosts the workflows and activities. Needs root.",
    "poller": "Watch manifests and the container runtime, and signal the workflows. Needs root.",
    "node": "Register as a node of a cluster: object, lease, HTTPS API. Needs root and --kubeconfig.",
}


def serve(name: str, arguments: Sequence[str]) -> None:
    """Run a service until it is asked to stop; raises what keeps it from starting."""
    parser = node_parser(f"tempolet {name}", SERVICES[name])
    if {"-h", "--help"} & set(arguments):
        parser.print_help(sys.stdout)
        return
    keep_memory_private()
    flags = parse_node_flags(parser, arguments)
    config = own_healthz(name, flags, load_node_config(flags))
    if name == "node" and config.cluster is None:
        raise ConfigurationRefused("tempolet node: --kubeconfig is required: a standalone node has no Node object")
    bare_kubernetes()
    if config.cluster is not None:
        bare_aiohttp()
    if name != "node":  # which uses no Temporal client
        bare_temporalio()
    with without("rich"):  # structlog imports rich if installed, to colour tracebacks that are never printed: 5 MB
        _start(name, config)


def own_healthz(name: str, flags: Flags, config: NodeConfig) -> NodeConfig:
    """Disable healthz of worker and poller on a cluster's node, where the node process reports for all three.

    Their own flag enables it again.
    """
    if config.cluster is None or name == "node" or HEALTHZ_PORT in flags.keys:
        return config
    return replace(config, healthz_port=0)


def _start(name: str, config: NodeConfig) -> None:
    import structlog

    from worker.daemon.logs import LogFile, set_up_logs
    from worker.machine.fitness import refuse_unfit_machine
    from worker.machine.process_limits import set_process_limits

    file = config.tempolet.logs.file
    set_up_logs(
        config.logging, LogFile(file) if file else None, changeable=name == "node"
    )  # its API has /debug/flags/v
    refuse_second_owners()
    log = structlog.get_logger(__name__)
    unfit = refuse_unfit_machine(config.root_dir, new=not config.state_dir.exists()) if name == "worker" else ()
    for warning in (*config.warnings, *unfit):
        log.warning(warning)
    log.info("Starting tempolet", command=name, node=config.node_name, rootDir=config.root_dir)
    set_process_limits(config.agent.oom_score_adj, config.agent.max_open_files)
    with contextlib.ExitStack() as stack:
        if name == "worker" and config.lock_file is not None:
            stack.enter_context(hold_lock_file(config.lock_file, name))
        try:
            asyncio.run(_RUN[name](config))
        except Exception as error:
            if is_unforeseen(error):  # nobody can run a service again to see its traceback
                log.exception("ended by a defect", command=name)
            raise


async def _worker(config: NodeConfig) -> None:
    from worker.processes.worker import run_worker

    await run_worker(config)


async def _poller(config: NodeConfig) -> None:
    from worker.daemon.api_access import kubeconfig_awaited
    from worker.daemon.background import in_background
    from worker.daemon.health import LoopHealth
    from worker.daemon.node_client import node_client
    from worker.daemon.service import Service
    from worker.processes.poller import PollerMonitoring, run_poller
    from worker.telemetry.process import open_telemetry
    from worker.telemetry.process_state import PROCESS, state_of

    health = LoopHealth()
    async with Service(health) as service, open_telemetry(config, "poller", health) as telemetry:
        telemetry.texts[PROCESS] = lambda: state_of(service)
        node = await node_client(config, service, role="poller", runtime=telemetry.runtime, plugins=telemetry.plugins)
        if await kubeconfig_awaited(config, service):
            async with in_background("Temporal", node.stay):
                await node.tried()
                await run_poller(config, node.client, service, PollerMonitoring(health, telemetry))


async def _node(config: NodeConfig) -> None:
    from worker.processes.node import run_node

    await run_node(config)


_RUN: Final[Mapping[str, Callable[[NodeConfig], Coroutine[object, object, None]]]] = {
    "worker": _worker,
    "poller": _poller,
    "node": _node,
}
