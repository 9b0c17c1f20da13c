"""What a machine must have, and must not have, before anything on it is changed. The judgement is pure; gathering is beside it."""

import asyncio
import errno
import os
import socket
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Final

from activities.clients.runtime import RuntimeClient
from activities.clients.start_limit import StartLimit
from worker.daemon.config import NodeConfig
from worker.daemon.node_client import temporal_settings
from worker.joining.places import Places
from worker.joining.refusal import JoinRefused
from worker.joining.systemd import UNITS, Systemd, Unit, unit_of
from worker.processes.cgroup_driver import RuntimeSilent, usable_names
from worker.settings.kubelet.configuration import ConfigurationRefused
from worker.standalone.cri_client import RuntimeNotReady, given_runtime
from worker.temporal.connect_errors import TemporalMisconfigured, refuse_unusable
from worker.temporal.temporal_client import connect_options

RUNTIME_WITHIN: Final = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """What was found on the machine."""

    root: bool
    systemd: bool
    kubelet: Unit
    program: Path
    """The `tempolet` of this release."""
    program_exists: bool
    link: Path
    leads_to: str = ""
    """Where the link leads; empty: there is none; `.`: it is no link."""


def machine_faults(facts: MachineFacts) -> Iterator[str]:
    """Say what is wrong with the machine itself, each with what to do."""
    if not facts.root:
        yield "it needs root: run it with sudo"
    if not facts.systemd:
        yield "systemd is not PID 1 here: `tempolet worker`, `poller` and `node` can be run by another supervisor (deploy/cluster.md, by hand)"
    if facts.kubelet.runs and facts.kubelet.id not in UNITS:
        yield (
            "a kubelet runs (kubelet.service), and both need port 10250 and /var/lib/kubelet: `systemctl disable --now kubelet`; "
            "its pods, kubeconfig and certificates are taken over, its static pods restart"
        )
    if not facts.program_exists:
        yield f"{facts.program} does not exist: install this release into a virtual environment (deploy/cluster.md, step 2)"
    if facts.leads_to not in ("", str(facts.program)):
        what = "is no link" if facts.leads_to == "." else f"leads to {facts.leads_to}"
        yield f"{facts.link} {what}, not to {facts.program}: remove it, or run the join (or the `tempolet upgrade`) of the release you want"


def machine_facts(places: Places, systemd: Systemd) -> MachineFacts:
    """Look at the machine; raises JoinRefused."""
    booted = places.systemd.is_dir()
    program = Path(sys.executable).with_name("tempolet")
    leads_to = ""
    if places.link.is_symlink():
        target = places.link.parent / places.link.readlink()
        leads_to = str(program if target.resolve() == program.resolve() else target)
    elif places.link.exists():
        leads_to = "."
    return MachineFacts(
        root=os.geteuid() == 0,
        systemd=booted,
        kubelet=systemd.unit("kubelet.service") if booted else Unit(),
        program=program,
        program_exists=program.exists(),
        link=places.link,
        leads_to=leads_to,
    )


def refuse_unready_runtime(endpoint: str) -> str:
    """Ask the container runtime for its version; raises JoinRefused if it does not answer on CRI."""
    try:
        return given_runtime(endpoint, RUNTIME_WITHIN)
    except RuntimeNotReady as error:
        raise JoinRefused(str(error)) from error


def refuse_wrong_cgroup_driver(config: NodeConfig) -> str:
    """Settle the cgroup driver as the worker will, and return its name; raises JoinRefused, ConfigurationRefused."""
    try:
        return asyncio.run(_cgroup_driver(config))
    except (RuntimeSilent, OSError) as error:
        raise JoinRefused(f"nothing was changed: {error}") from error
    except ConfigurationRefused as refused:
        raise ConfigurationRefused(f"nothing was changed: {refused}") from refused


async def _cgroup_driver(config: NodeConfig) -> str:
    runtime = RuntimeClient(config.container_runtime_endpoint, StartLimit(1))
    try:
        return (await usable_names(config, runtime)).driver
    finally:
        await runtime.close()


def refuse_taken_port(address: str, port: int, systemd: Systemd) -> None:
    """Check that the port of the node's API is free, or our own service's; raises JoinRefused."""
    if port == 0 or systemd.unit(unit_of("node")).runs:
        return
    try:
        with socket.create_server((address, port), family=socket.AF_INET6 if ":" in address else socket.AF_INET):
            pass
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise JoinRefused(
                f"port {port}, on which the cluster asks a node for logs and exec, is taken: `ss -ltnp 'sport = :{port}'` "
                "shows by what; stop it"
            ) from error
        raise JoinRefused(f"port {port} of {address} cannot be used: {error.strerror}") from error


def refuse_unusable_temporal(config: NodeConfig, variables: Mapping[str, str]) -> None:
    """Check Temporal's address and TLS files as the services will, without a network; raises JoinRefused."""
    try:
        refuse_unusable(dict(connect_options(replace(temporal_settings(config), environment=dict(variables)))))
    except TemporalMisconfigured as error:
        raise JoinRefused(f"nothing was changed: {error}") from error
