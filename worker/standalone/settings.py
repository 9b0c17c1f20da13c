"""The settings of `tempolet up`, and the paths of a standalone node.

Filled by the command line (or a test), read by `up` and `down`. Everything in which two nodes on one machine could
collide is a field. A running node's settings are stored in its run folder, so that `tempolet down` only needs that
folder, and a second `up` with other settings is refused.
"""

import dataclasses
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from activities.files.atomic_files import sync_folder, write_atomically
from activities.machine.boot_id import boot_id
from worker.settings.tempolet_configuration import SYNC_NORMAL
from worker.standalone.containerd import Containerd
from worker.standalone.containerd_config import ContainerdPlaces
from worker.standalone.given_configuration import GivenConfiguration
from worker.standalone.machine.process import Supervised
from worker.standalone.machine.programs import default_parts_dir
from worker.standalone.machine.system_user import SystemUser
from worker.standalone.machine.units import DEFAULT_RUN_DIR, NodeUnits
from worker.standalone.pod_network.network import PodNetwork
from worker.standalone.temporal_server import TemporalServer

STATE_VARIABLE: Final = "TEMPOLET_STATE_DIR"
RUN_VARIABLE: Final = "TEMPOLET_RUN_DIR"
DEFAULT_STATE_DIR: Final = Path("/var/lib/tempolet")


class OtherSettings(Exception):
    """A node runs already, with other settings than requested."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Every loopback port of a node."""

    ui: int = 8233
    """The Temporal UI's."""
    worker_healthz: int = 10248
    """The kubelet's own."""
    poller_healthz: int = 10249


def _directory(variable: str, default: Path) -> Path:
    return Path(os.environ.get(variable) or default).absolute()


@dataclass(frozen=True, slots=True)
class Settings:
    """One standalone node."""

    state_dir: Path = field(default_factory=lambda: _directory(STATE_VARIABLE, DEFAULT_STATE_DIR))
    run_dir: Path = field(default_factory=lambda: _directory(RUN_VARIABLE, DEFAULT_RUN_DIR))
    container_runtime_endpoint: str = ""
    """unix:// of a running containerd; empty: a private one is started."""
    hostname_override: str = ""
    kubeconfig: str = ""
    """The kubeconfig of the cluster that this node joins; empty: standalone."""
    node_ip: str = ""
    """The address by which the cluster reaches this node; empty: that of the default route."""
    network: PodNetwork = field(default_factory=PodNetwork)
    cgroup: str = "/tempolet"
    ports: Ports = Ports()
    given_configuration: GivenConfiguration = field(default_factory=GivenConfiguration)
    """The operator's configuration in addition to what `up` sets."""
    parts_dir: Path = field(default_factory=default_parts_dir)
    systemd: bool = False
    """Its processes are services of systemd, which come back after a crash and at each boot; False: plain processes."""

    @property
    def root_dir(self) -> Path:
        """The node's --root-dir."""
        return self.state_dir / "node"

    @property
    def manifests(self) -> Path:
        """The folder of the node's manifests (staticPodPath)."""
        return self.state_dir / "manifests"

    @property
    def objects(self) -> Path:
        """The folder of the objects that manifests refer to: ConfigMaps, Secrets, claims."""
        return self.state_dir / "objects"

    @property
    def kept_manifests(self) -> Path:
        """Where `down` keeps the manifests until the next `up`."""
        return self.state_dir / "manifests.down"

    @property
    def logs(self) -> Path:
        """The folder of all logs, including the pods'."""
        return self.state_dir / "log"

    @property
    def configuration(self) -> Path:
        """The folder of the configuration files that `up` writes."""
        return self.run_dir / "config"

    @property
    def key_file(self) -> Path:
        """The keys that encrypt payloads."""
        return self.state_dir / "payload.keys"

    @property
    def record(self) -> Path:
        """The file of a running node's settings."""
        return self.run_dir / "settings.json"

    @property
    def record_for_boot(self) -> Path:
        """The same, for a boot: the run folder is gone then."""
        return self.state_dir / "settings.json"

    @property
    def boot_mark(self) -> Path:
        """The file that says of which boot the run folder's content is."""
        return self.run_dir / "boot-id"

    @property
    def units(self) -> NodeUnits | None:
        """What starts the processes; None: they are plain ones."""
        if not self.systemd:
            return None
        return NodeUnits(self.run_dir, self.state_dir, given_runtime=bool(self.container_runtime_endpoint))

    @property
    def endpoint(self) -> str:
        """The CRI endpoint that the node uses."""
        return self.container_runtime_endpoint or self.containerd.endpoint

    @property
    def runtime_socket(self) -> Path:
        """That endpoint's socket."""
        return Path(self.endpoint.removeprefix("unix://"))

    @property
    def containerd(self) -> Containerd:
        """The private containerd, whether it runs or not."""
        places = ContainerdPlaces(self.state_dir, self.run_dir)
        return Containerd(places, self.network, self.cgroup, self.parts_dir, self.units)

    @property
    def temporal(self) -> TemporalServer:
        """The node's Temporal server, whether it runs or not."""
        history = self.given_configuration.tempolet_configuration.get("history") or {}
        return TemporalServer(
            self.state_dir,
            self.run_dir,
            self.ports.ui,
            parts_dir=self.parts_dir,
            units=self.units,
            sync=history.get("databaseSync", SYNC_NORMAL),
        )

    @property
    def temporal_user(self) -> SystemUser:
        """The user that Temporal runs as, whether there is one or not."""
        return SystemUser.of_temporal(self.state_dir, self.run_dir)

    @property
    def worker(self) -> Supervised:
        """The worker process."""
        return Supervised(self.run_dir / "worker.pid", self.units)

    @property
    def poller(self) -> Supervised:
        """The poller process."""
        return Supervised(self.run_dir / "poller.pid", self.units)

    @property
    def node(self) -> Supervised:
        """The node process, which only a node of a cluster has."""
        return Supervised(self.run_dir / "node.pid", self.units)

    def keep(self) -> None:
        """Store the settings for `down` and the next `up`; raises OtherSettings if a node runs with others."""
        before = recorded(self.run_dir)
        if before and before != self and before.is_running():
            changed = ", ".join(self._differences(before))
            raise OtherSettings(
                f"a node runs at {self.run_dir} with other settings ({changed}): run `tempolet down` first"
            )
        self.keep_for_this_boot()

    def keep_for_this_boot(self) -> None:
        """Store the settings in the run folder, with the boot that it belongs to."""
        self.run_dir.mkdir(parents=True, exist_ok=True, mode=0o711)
        write_atomically(self.boot_mark, f"{boot_id()}\n".encode(), synced=False)
        write_atomically(self.record, self._text(), synced=False)

    def keep_for_next_boot(self) -> None:
        """Store the settings where a boot leaves them."""
        write_atomically(self.record_for_boot, self._text())
        sync_folder(self.state_dir)

    def refer_to_units(self) -> None:
        """Let each process be found by its unit, after a boot."""
        if units := self.units:
            given = bool(self.container_runtime_endpoint)
            processes = [self.worker, self.poller, *([self.node] if self.kubeconfig else []), self.temporal.process]
            for process in (*processes, *([] if given else [self.containerd.process])):
                process.belongs_to(units.name(process.pid_file.stem))

    def _text(self) -> bytes:
        """Write the settings: of root's, for they have the operator's configuration, perhaps with credentials."""
        return (json.dumps(dataclasses.asdict(self), default=str, indent=1) + "\n").encode()

    def is_of_this_boot(self) -> bool:
        """Report whether the run folder was filled since the machine was started."""
        try:
            return self.boot_mark.read_text().strip() == boot_id()
        except OSError:
            return False

    def _differences(self, before: "Settings") -> Iterator[str]:
        for name in (one.name for one in dataclasses.fields(self)):
            if name == "given_configuration":
                yield from self.given_configuration.differences(before.given_configuration)
            elif getattr(self, name) != getattr(before, name):
                yield name

    def is_running(self) -> bool:
        """Report whether any process of the node runs."""
        supervised = (self.worker, self.poller, self.node, self.temporal.process, self.containerd.process)
        return any(process.running() for process in supervised)


def recorded(folder: Path) -> Settings | None:
    """Read the settings of the node that runs (or ran) with this run folder; None if there was none.

    Also those that a boot needs, from a state folder.
    """
    try:
        found: dict[str, Any] = json.loads((folder / "settings.json").read_text())
        found |= {name: Path(found[name]) for name in ("state_dir", "run_dir", "parts_dir")}
        found |= {"network": PodNetwork(**found["network"]), "ports": _ports(found["ports"])}
        found["given_configuration"] = GivenConfiguration(**found.get("given_configuration", {}))
        return Settings(**found)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _ports(found: dict[str, int]) -> Ports:
    """Read the ports that are known; an earlier release, whose node `down` may have to stop, had others."""
    names = {one.name for one in dataclasses.fields(Ports)}
    return Ports(**{name: port for name, port in found.items() if name in names})
