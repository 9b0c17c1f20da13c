"""`tempolet upgrade`: switches a node to this release.

Replays the open histories first, restarts worker, poller and node process in order, compares the containers, and brings the release before
back if a process does not work in time. The code is in `worker/upgrades/`.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Final

import grpc

from activities.files.pod_paths import UnsafeName
from proto.node_runtime import read_node_runtime
from proto.pod_snapshot import read_snapshots
from worker.behaviours.commitment import Commitment
from worker.commands import replay
from worker.commands.access.exits import CommandFailed, Exit
from worker.daemon.config import NodeConfig
from worker.daemon.node_lock import hold_node_lock
from worker.host.replays.build import build_id
from worker.settings.tempolet_configuration import AT_START
from worker.stand_in.journal.kept import folder_of
from worker.stand_in.journal.reading import AWAY
from worker.standalone.settings import Settings, recorded
from worker.telemetry.process_state import ProcessState, process_state
from worker.upgrades.containers import RunningContainers
from worker.upgrades.services import CannotUpgrade, Services
from worker.upgrades.units import Units
from worker.upgrades.up_processes import UpProcesses
from worker.upgrades.upgrade import Upgrade, WentBack, interrupted, under_way

ASKED_WITHIN: Final = timedelta(seconds=2)


def run(config: NodeConfig, *, within: float, force: bool) -> Exit:
    """Upgrade this machine's node; `force`: also if pods' histories do not replay."""
    if os.geteuid() != 0:
        raise CommandFailed("`tempolet upgrade` needs root", Exit.USAGE)
    try:
        with hold_node_lock(config.root_dir, "upgrade"):
            services = services_of(config)
            _refuse_differing(config, force=force)
            return switch(config, services, within)
    except (CannotUpgrade, WentBack) as error:
        raise CommandFailed(str(error)) from error
    except grpc.RpcError as error:
        raise CommandFailed(f"the container runtime does not answer: {error}") from error


def services_of(config: NodeConfig) -> Services:
    """Return whoever supervises the node's processes; raises CannotUpgrade."""
    settings = recorded(Settings().run_dir)
    if settings is not None and settings.root_dir == config.root_dir:
        return UpProcesses.found(settings)
    program = Path(sys.executable).with_name("tempolet")
    if not program.exists():
        raise CannotUpgrade(f"{program} does not exist: run `python3 -m deploy.setup` in the folder of this release")
    return Units.found(program, old=interrupted(config.state_dir))


def switch(config: NodeConfig, services: Services, within: float) -> Exit:
    """Switch, and compare the containers; raises WentBack, CannotUpgrade, RpcError and OSError."""
    told = read_node_runtime(config.root_dir)
    endpoint = told.endpoint if told else config.container_runtime_endpoint
    pods = read_snapshots(config.root_dir)
    containers = RunningContainers(Path(endpoint.removeprefix("unix://")), [one.uid for one in pods])
    before = containers.now()
    print(f"from {services.before} to build {build_id()}, with {len(before)} running containers", flush=True)

    def ask(role: str) -> ProcessState | None:
        return asyncio.run(process_state(config.state_dir, role, ASKED_WITHIN))

    with _interrupted_by(signal.SIGTERM, signal.SIGHUP), under_way(config.state_dir, services.before):
        Upgrade(services, ask, _say, within).run()
    compared = containers.since(before)
    print(f"✓ {compared.unchanged} containers run on with the same pids")
    if compared.ended:
        print(f"ended by themselves meanwhile: {', '.join(compared.ended)}")
    _commit(config)
    if compared.stopped:
        raise CommandFailed(f"stopped during the upgrade: {', '.join(compared.stopped)}; `tempolet history` says why")
    return Exit.DONE


def _say(line: str) -> None:
    """Print a line; a terminal that has gone away ends no upgrade."""
    with contextlib.suppress(OSError):
        print(line, flush=True)


@contextlib.contextmanager
def _interrupted_by(*signals: signal.Signals) -> Iterator[None]:
    """Let signals interrupt the block as Ctrl-C does, so that the node does not stay between two releases."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = {one: signal.signal(one, interrupt) for one in signals}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _refuse_differing(config: NodeConfig, *, force: bool) -> None:
    """Replay what is open; raises CommandFailed if something differs."""
    verdicts = asyncio.run(replay.live(config))
    differing = [one for one in verdicts if one.failure]
    for one in differing:
        print(one, flush=True)
    print(f"{len(verdicts)} open histories replayed, {len(differing)} differ", flush=True)
    stay = [one.name for one in differing if not (force and _can_be_led(config, one.name))]
    if not stay:
        return
    hint = ": the node has no state of them" if force else "; with --force another run takes the place of each"
    raise CommandFailed(
        f"nothing was changed: {', '.join(stay)} cannot go on with this release{hint}", Exit.REPLAY_DIFFERS
    )


def _can_be_led(config: NodeConfig, workflow_id: str) -> bool:
    """Report whether the new worker can lead this pod, or the node's images, and start another run with the state that is kept of it."""
    try:
        return (config.state_dir / AWAY / folder_of(workflow_id)).is_dir()
    except (ValueError, UnsafeName):  # no workflow of ours
        return False


def _commit(config: NodeConfig) -> None:
    """Commit the node if its configuration says so at each start; say how otherwise."""
    if config.tempolet.behaviour.commit == AT_START:
        print(f"the node is committed to behaviours {Commitment(config.state_dir).commit()}")
    else:
        print(
            "until you run `tempolet behaviour --commit`, you can go back with the `tempolet upgrade` of the release before"
        )
