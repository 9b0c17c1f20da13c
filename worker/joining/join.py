"""`tempolet join`: makes this machine a node of a cluster, or says why it cannot be, before anything is changed.

With `for_kubeadm` it only installs the services, in the kubelet's place: `kubeadm join` finds the cluster, writes and starts.

The order: look at the machine, prove the cluster, choose the configuration, compare every file with what is there; only then write, enable and
wait. A second run finds everything as it must be. One that was interrupted goes on, by the record (`record.py`).
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Final

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
from worker.joining.systemd import UNITS, Systemd, unit_of
from worker.joining.waiting import until_ready
from worker.machine.fitness import refuse_unfit_machine
from worker.standalone.cri_client import without_user_namespaces

ASK_THE_KUBELET: Final = ("KubeletVersion", "SystemVerification")
"""Checks of kubeadm that need a program called kubelet, for its version."""
_NOTHING: Final = "dry run: nothing was changed"

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
        checked = replace(self, request=self.request.checked(node))
        if self.request.for_kubeadm:
            checked.prepare(node)
        else:
            checked.join(node)

    def prepare(self, node: str) -> None:
        """Install the services where `kubeadm join` starts the kubelet; see `run`."""
        systemd, places = Systemd(self.places.systemctl), self.places
        program, record = self._machine(systemd, node)
        if record.server:
            raise JoinRefused(f"this machine was joined to {record.server} by join itself: `tempolet leave` first")
        if not _is_ours(places.kubelet_unit):
            raise JoinRefused(
                f"{places.kubelet_unit} is another's unit, and kubeadm would start it: "
                "`systemctl disable --now kubelet`, remove it, and run join again"
            )
        flags = planned.NodeFlags(self.request.endpoint)
        choice = ConfigurationChoice(self.request, places, self.say)
        config = choice.checked(choice.minimal("what kubeadm will write"), flags)
        refuse_unusable_temporal(config, self.request.temporal.variables())
        endpoint = self.request.endpoint or planned.CONTAINERD
        self.say(f"container runtime: {refuse_unready_runtime(endpoint)} at {endpoint}")
        self._tell_what_pods_lack(endpoint)
        wanted = [*self._own_files(flags), PlannedFile(places.kubeadm_drop_in, planned.kubeadm_drop_in())]
        installation = look(wanted, record, lambda one, content: one.content == content)
        if self.dry_run:
            self._tell_files(installation, program)
            self.say(f"would lead {places.kubelet_unit} to {unit_of('node')}, and enable {', '.join(UNITS)}")
            self.say(_NOTHING)
            return
        self._begin(record, node, "", endpoint)
        self._write(installation, record, program)
        if not places.kubelet_unit.is_symlink():
            places.kubelet_unit.symlink_to(unit_of("node"))
            self.say(f"{places.kubelet_unit} leads to {unit_of('node')}")
        systemd.reload()
        systemd.enable_at_boot(UNITS)
        self.say(f"now: kubeadm join … --ignore-preflight-errors={','.join(ASK_THE_KUBELET)}")

    def join(self, node: str) -> None:
        """Join as this node; see `run`."""
        systemd = Systemd(self.places.systemctl)
        program, record = self._machine(systemd, node)
        if not record.is_empty and not record.server:
            raise JoinRefused("this machine is prepared for `kubeadm join`: run that, or `tempolet leave` first")
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
        self._tell_what_pods_lack(endpoint)
        if config.cluster is not None and config.cluster.serving.enabled:
            refuse_taken_port(config.cluster.serving.address, config.cluster.serving.port, systemd)
        installation = look(self._files(cluster, configuration, flags), record, self._will_do)
        if self.dry_run:
            self._tell(installation, cluster, program)
            return
        self._begin(record, node, cluster.server, endpoint)
        changed = self._write(installation, record, program)
        changed = self._start(installation, systemd) or changed
        for line in asyncio.run(until_ready(self.places, systemd, node, self.wait)):
            self.say(line)
        if str(self.places.bootstrap_kubeconfig) in record.files:
            forget(self.places.bootstrap_kubeconfig, record)  # as kubeadm does: the token is needed no more
        self.say(f"node {node} of {cluster.server} is Ready{'' if changed else '; nothing had to be changed'}")

    def _machine(self, systemd: Systemd, node: str) -> tuple[Path, Record]:
        """Look at the machine; returns this release's program, and what an earlier join made. Raises JoinRefused, MachineUnfit."""
        facts = machine_facts(self.places, systemd)
        if faults := list(machine_faults(facts)):
            raise JoinRefused(f"nothing was changed: {'; '.join(faults)}")
        for warning in refuse_unfit_machine(self.places.root_dir, new=True):
            self.say(f"warning: {warning}")
        record = Record.read(self.places.record)
        if record.node not in ("", node):
            raise JoinRefused(f"this machine was joined as node {record.node}, not {node}: `tempolet leave` first")
        return facts.program, record

    def _tell_what_pods_lack(self, endpoint: str) -> None:
        if missing := without_user_namespaces(endpoint):
            self.say(f"note: {missing}")

    def _files(self, cluster: Cluster, configuration: Configuration, flags: planned.NodeFlags) -> list[PlannedFile]:
        """List what must be there in the end."""
        places = self.places
        found = [
            PlannedFile(places.authority, cluster.authority, PUBLIC),
            PlannedFile(places.kubelet_configuration, configuration.text),
        ]
        if cluster.bootstrap is not None:
            found.append(PlannedFile(places.bootstrap_kubeconfig, cluster.bootstrap))
        return [*found, *self._own_files(flags)]

    def _own_files(self, flags: planned.NodeFlags) -> list[PlannedFile]:
        """List the services' units, environment and TempoletConfiguration."""
        places = self.places
        found = [PlannedFile(places.environment, planned.environment(self.request, places, flags))]
        if self.request.tempolet_config is not None:
            found.append(PlannedFile(places.tempolet_configuration, self.request.tempolet_config.read_bytes()))
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

    def _tell_files(self, installation: Installation, program: Path) -> None:
        for line in installation.lines():
            self.say(f"would {line}")
        if not self.places.link.is_symlink():
            self.say(f"would lead {self.places.link} to {program}")

    def _tell(self, installation: Installation, cluster: Cluster, program: Path) -> None:
        self._tell_files(installation, program)
        self.say(f"would run systemctl daemon-reload, and enable and start {', '.join(UNITS)}")
        self.say(f"would wait {self.wait.total_seconds():g} s at most until the Node of {cluster.server} is Ready")
        if cluster.bootstrap is not None:
            self.say(f"would remove {self.places.bootstrap_kubeconfig} then")
        self.say(_NOTHING)

    def _begin(self, record: Record, node: str, server: str, endpoint: str) -> None:
        """Record for which node it is, and what services and kubeadm will make."""
        if not record.is_empty:
            return
        places = self.places
        record.node, record.server, record.endpoint = node, server, endpoint
        record.namespace = self.request.temporal.namespace
        record.found = _names(places.root_dir)
        later, folders = [places.kubeconfig], [places.root_dir]
        if self.request.for_kubeadm:
            later += [places.bootstrap_kubeconfig, places.authority, places.kubelet_unit]
            folders += [places.kubernetes, places.authority.parent, places.kubernetes / "manifests"]
        record.later = [str(one) for one in later if not one.exists()]
        record.folders += [str(one) for one in folders if not one.exists()]
        make_folder(places.own, record)
        record.write()

    def _write(self, installation: Installation, record: Record, program: Path) -> bool:
        """Write files and link; returns whether something was missing or outdated."""
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


def _is_ours(unit: Path) -> bool:
    """Report whether a unit is a link to ours, or not there."""
    if unit.is_symlink():
        return unit.readlink().name == unit_of("node")
    return not unit.exists()


def _names(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir()) if folder.is_dir() else []
