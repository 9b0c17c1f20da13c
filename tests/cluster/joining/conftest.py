"""A control plane that machines can join, and a machine below a root folder of its own."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest

from tests.cluster import bootstrap_tokens
from tests.cluster.control_plane import ControlPlane
from tests.cluster.joining.played_systemctl import stop, systemctl_for
from tests.free_ports import free_ports
from tests.node.tempolet_node import STARTS_WITHIN
from worker.joining.join import Joining
from worker.joining.leave import Leaving
from worker.joining.places import Places
from worker.joining.request import BootstrapToken, JoinRequest, Temporal, ca_hashes
from worker.joining.systemd import STOPPED_IN, unit_of
from worker.standalone.containerd import Containerd
from worker.standalone.cri_client import CriClient
from worker.standalone.machine import leftovers
from worker.standalone.temporal_server import TemporalServer

POD_UID: Final = "io.kubernetes.pod.uid"


@dataclass
class Machine:
    """A machine: its files below a root, its services started by the played systemctl."""

    folder: Path
    plane: ControlPlane
    request: JoinRequest
    cgroup: str
    """cgroupRoot of its configuration."""
    said: list[str] = field(default_factory=list)

    @property
    def root(self) -> Path:
        """Its root."""
        return self.folder / "root"

    @property
    def state(self) -> Path:
        """The state of its systemctl."""
        return self.folder / "state"

    @property
    def places(self) -> Places:
        """Where its files are."""
        return Places.below(self.root, str(self.state / "systemctl"))

    @property
    def node(self) -> str:
        """Its name."""
        return self.request.hostname_override

    def join(self, *, dry_run: bool = False, within: float = STARTS_WITHIN, **other: Any) -> list[str]:
        """Join; returns what was said."""
        self.said = []
        wait = timedelta(seconds=within)
        Joining(replace(self.request, **other), self.places, self.said.append, wait, dry_run=dry_run).run()
        return self.said

    def leave(self, *, purge: bool = False) -> list[str]:
        """Leave; returns what was said."""
        self.said = []
        assert Leaving(self.places, self.said.append, lambda: True, purge=purge).run()
        return self.said

    def calls(self) -> list[str]:
        """Return the calls of systemctl that change something, and forget them."""
        file = self.state / "calls"
        found = file.read_text().splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return found

    def files(self) -> dict[str, tuple[int, int]]:
        """Return inode and time of change of everything below the root but the node's own state."""
        state = self.places.root_dir
        every = [one for one in self.root.rglob("*") if state not in one.parents]
        return {str(one.relative_to(self.root)): _stamp(one) for one in every if not one.is_socket()}

    def logs(self) -> str:
        """Return the ends of the services' logs."""
        return "\n".join(f"--- {one.name}\n{one.read_text()[-3000:]}" for one in self.state.glob("*.log"))

    def end(self) -> None:
        """Stop what a failed test has left."""
        for role in STOPPED_IN:
            stop(self.state, unit_of(role))
        leftovers.unmount_below(self.root)


@pytest.fixture(scope="module")
def joinable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Run a control plane whose controller-manager signs cluster-info and certificates."""
    with ControlPlane(
        tmp_path_factory.mktemp("joinable"), controllers=True, controller_flags=bootstrap_tokens.SIGNER
    ) as made:
        bootstrap_tokens.publish(made)
        yield made


@pytest.fixture
def machine(
    tmp_path: Path, joinable: ControlPlane, containerd: Containerd, temporal: TemporalServer, node_ip: str
) -> Iterator[Machine]:
    """Return a machine with systemd and containerd, which is no node yet."""
    own = tmp_path / "given.yaml"
    request = JoinRequest(
        server=joinable.server,
        hashes=ca_hashes([bootstrap_tokens.ca_hash(joinable)]),
        temporal=Temporal(temporal.address),
        token=BootstrapToken.parse(bootstrap_tokens.TOKEN),
        node_ip=node_ip,
        hostname_override=f"j{uuid4().hex[:6]}",
        endpoint=containerd.endpoint,
        tempolet_config=own,
    )
    made = Machine(tmp_path, joinable, request, containerd.cgroup)
    own.write_text(
        "apiVersion: tempolet.dev/v1alpha1\nkind: TempoletConfiguration\n"
        f"logs: {{legacyContainerLogsDir: {made.places.container_logs}}}\ntemporal: {{awayAfter: 10m}}\n"
    )
    made.places.systemd.mkdir(parents=True)
    systemctl_for(made.root, made.state)
    kubelet = {
        "staticPodPath": str(made.places.kubernetes / "manifests"),
        "podLogsDir": str(made.places.pod_logs),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": containerd.cgroup,
        "failCgroupV1": False,
        "containerRuntimeEndpoint": "",
        "healthzPort": 0,
        "address": node_ip,
        "port": free_ports(1)[0],
        "rotateCertificates": True,
        "authentication": {"x509": {"clientCAFile": str(made.places.authority)}},
    }
    bootstrap_tokens.publish_configuration(joinable, kubelet)
    try:
        yield made
    finally:
        made.end()
        _end_sandboxes(made, containerd)
        joinable.api.delete(f"/api/v1/nodes/{made.node}")


def _end_sandboxes(machine: Machine, containerd: Containerd) -> None:
    """End what a failed test has left."""
    pods = machine.places.root_dir / "pods"
    uids = {one.name for one in pods.iterdir()} if pods.is_dir() else set()
    if uids:
        with CriClient(Path(containerd.endpoint.removeprefix("unix://"))) as runtime:
            runtime.remove_sandboxes([one.id for one in runtime.sandboxes() if one.labels.get(POD_UID) in uids])


def _stamp(path: Path) -> tuple[int, int]:
    with contextlib.suppress(OSError):
        found = path.lstat()
        return found.st_ino, 0 if path.is_dir() else found.st_mtime_ns
    return 0, 0
