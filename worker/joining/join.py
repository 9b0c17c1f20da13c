"""`tempolet join`: makes this machine a node of a cluster, or says why it cannot be, before anything is changed.

The order: look at the machine, prove the cluster, choose the configuration, compare every file with what is there; only then write, enable and
wait. A second run finds everything as it must be. One that was interrupted goes on, by the record (`record.py`).
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from worker.daemon.config import node_name
from worker.joining import planned
from worker.joining.cluster_info import same_certificates
from worker.joining.configuration import Configuration, ConfigurationChoice
from worker.joining.discovery import Cluster, find_cluster
from worker.joining.installing import Installation, forget, install, lead_link, look, make_folder
from worker.joining.places import Places
from worker.joining.planned import PRIVATE, PUBLIC, PlannedFile
from worker.joining.record import Record
from worker.joining.refusal import ClusterNotProven, JoinRefused
from worker.joining.request import JoinRequest
from worker.joining.requirements import (
    machine_facts,
    machine_faults,
    refuse_taken_port,
    refuse_unready_runtime,
    refuse_unusable_temporal,
    refuse_wrong_cgroup_driver,
)
from worker.joining.systemd import UNITS, Systemd
from worker.joining.waiting import until_ready
from worker.machine.fitness import refuse_unfit_machine

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Joining:
    """One run of join."""

    request: JoinRequest
    places: Places
    say: Say
    wait: timedelta
    dry_run: bool = False

    def run(self) -> None:
        """Join, or with `dry_run` only tell; raises JoinRefused, MachineUnfit, ConfigurationRefused and OSError."""
        node = node_name(self.request.hostname_override or None)
        replace(self, request=self.request.checked(node)).join(node)

    def join(self, node: str) -> None:
        """Join as this node; see `run`."""
        systemd = Systemd(self.places.systemctl)
        facts = machine_facts(self.places, systemd)
        if faults := list(machine_faults(facts)):
            raise JoinRefused(f"nothing was changed: {'; '.join(faults)}")
        for warning in refuse_unfit_machine(self.places.root_dir, new=True):
            self.say(f"warning: {warning}")
        record = Record.read(self.places.record)
        if record.node not in ("", node):
            raise JoinRefused(f"this machine was joined as node {record.node}, not {node}: `tempolet leave` first")
        cluster = find_cluster(self.request, self.places, node, self.say)
        choice = ConfigurationChoice(self.request, self.places, self.say)
        configuration = choice.choose(cluster.access, record)
        runs = systemd.unit("systemd-resolved.service").active == "active"
        flags = planned.node_flags(self.request, configuration.content, resolved_runs=runs)
        config = choice.checked(configuration, flags)
        refuse_unusable_temporal(config, self.request.temporal.variables())
        endpoint = config.container_runtime_endpoint
        runtime = refuse_unready_runtime(endpoint)
        self.say(
            f"container runtime: {runtime} at {endpoint}, with the cgroup driver {refuse_wrong_cgroup_driver(config)}"
        )
        if config.cluster is not None and config.cluster.serving.enabled:
            refuse_taken_port(config.cluster.serving.address, config.cluster.serving.port, systemd)
        installation = look(self._files(cluster, configuration, flags), record, self._will_do)
        if self.dry_run:
            self._tell(installation, cluster, facts.program)
            return
        changed = self._write(installation, cluster, record, node, endpoint, facts.program)
        changed = self._start(installation, systemd) or changed
        for line in asyncio.run(until_ready(self.places, systemd, node, self.wait)):
            self.say(line)
        if str(self.places.bootstrap_kubeconfig) in record.files:
            forget(self.places.bootstrap_kubeconfig, record)  # as kubeadm does: the token is needed no more
        self.say(f"node {node} of {cluster.server} is Ready{'' if changed else '; nothing had to be changed'}")

    def _files(self, cluster: Cluster, configuration: Configuration, flags: planned.NodeFlags) -> list[PlannedFile]:
        """List what must be there in the end."""
        places = self.places
        found = [
            PlannedFile(places.authority, cluster.authority, PUBLIC),
            PlannedFile(places.kubelet_configuration, configuration.text),
            PlannedFile(places.environment, planned.environment(self.request, places, flags)),
        ]
        if self.request.tempolet_config is not None:
            found.append(PlannedFile(places.tempolet_configuration, self.request.tempolet_config.read_bytes()))
        if cluster.bootstrap is not None:
            found.append(PlannedFile(places.bootstrap_kubeconfig, cluster.bootstrap))
        found += [replace(one, path=places.units / one.path, mode=PRIVATE) for one in planned.planned_units()]
        return found

    def _will_do(self, one: PlannedFile, content: bytes) -> bool:
        """Report whether a content needs no change."""
        if one.path == self.places.authority:
            try:
                return same_certificates(one.content, content)
            except ClusterNotProven as error:
                raise JoinRefused(f"{one.path}: {error}; remove it, and run join again") from error
        return one.content == content

    def _tell(self, installation: Installation, cluster: Cluster, program: Path) -> None:
        for line in installation.lines():
            self.say(f"would {line}")
        if not self.places.link.is_symlink():
            self.say(f"would lead {self.places.link} to {program}")
        self.say(f"would run systemctl daemon-reload, and enable and start {', '.join(UNITS)}")
        self.say(f"would wait {self.wait.total_seconds():g} s at most until the Node of {cluster.server} is Ready")
        if cluster.bootstrap is not None:
            self.say(f"would remove {self.places.bootstrap_kubeconfig} then")
        self.say("dry run: nothing was changed")

    def _write(  # noqa: PLR0913, PLR0917 - what was found, each by another step
        self, installation: Installation, cluster: Cluster, record: Record, node: str, endpoint: str, program: Path
    ) -> bool:
        """Write files and link; returns whether something was missing or outdated."""
        if record.is_empty:
            record.node, record.server, record.endpoint = node, cluster.server, endpoint
            record.namespace = self.request.temporal.namespace
            record.found = _names(self.places.root_dir)
            if not self.places.kubeconfig.exists():
                record.later = [str(self.places.kubeconfig)]
            if not self.places.root_dir.exists():
                record.folders.append(str(self.places.root_dir))  # the services make it
            make_folder(self.places.own, record)
            record.write()
        install(installation, record)
        for one in installation.changes:
            self.say(f"wrote {one.path}")
        linked = lead_link(self.places.link, program, record)
        if linked:
            self.say(f"{self.places.link} leads to {program}")
        return bool(installation.changes) or linked

    def _start(self, installation: Installation, systemd: Systemd) -> bool:
        """Reload, enable, start or restart what needs it; returns whether something did."""
        if any(one.path.parent == self.places.units for one in installation.changes):
            systemd.reload()
        units = {name: systemd.unit(name) for name in UNITS}
        idle = [name for name, unit in units.items() if unit.enabled != "enabled" or not unit.runs]
        if idle:
            systemd.enable(idle)
            self.say(f"enabled and started {', '.join(idle)}")
        others = [name for name in UNITS if name not in idle]
        changed = bool(installation.changes)  # also of the token, which `tempolet node` reads at its start
        if others and changed:
            systemd.restart(others)
            self.say(f"restarted {', '.join(others)}; no container was stopped")
        return bool(idle) or changed


def _names(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir()) if folder.is_dir() else []
