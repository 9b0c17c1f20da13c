"""A whole cluster with one node on this machine: control plane, containerd and a node agent, ours or the real kubelet.

`make cluster` and `make conformance` start it. Everything lies below one folder and has pid files, so another call finds it and
stops it. The folder's path is short: a socket's path is limited to 107 characters.
"""

import contextlib
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.cluster.cluster_node import add_address, condition
from tests.cluster.control_plane import ControlPlane
from tests.cluster.peers.real_kubelet import RealKubelet
from tests.free_ports import free_ports
from tests.killed_sessions import remove_leftovers
from tests.own_number import own_number
from worker.standalone.down import down, what_is_left
from worker.standalone.given_configuration import GivenConfiguration
from worker.standalone.machine import leftovers as remains
from worker.standalone.machine.links import delete_link
from worker.standalone.pod_network.network import PodNetwork
from worker.standalone.progress import Progress
from worker.standalone.settings import Ports, Settings, recorded
from worker.standalone.up import up

NODE: Final = "node-1"
NUMBERS: Final = 64
"""Each takes a /22 in 10.212.0.0/16."""
PEERS: Final = ("tempolet", "kubelet")


class ClusterFailed(Exception):
    """The cluster did not start, or something of it is left; says what."""


def cluster_number() -> contextlib.AbstractContextManager[int]:
    """Take a number that no other cluster on this machine has while the block runs; 0 is for `make cluster`."""
    return own_number("tempolet-one", range(1, NUMBERS))


@dataclass(frozen=True, slots=True)
class OneNode:
    """A cluster with one node, running or not."""

    home: Path
    number: int = 0
    """Determines bridge, subnet, cgroup and address; 0 to 63."""
    peer: str = "tempolet"
    binaries: Path | None = None
    plane: ControlPlane = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(
            self,
            "plane",
            ControlPlane(
                self.home / "plane", self.binaries, controllers=True, apiserver_flags=["--enable-aggregator-routing"]
            ),
        )

    @property
    def address(self) -> str:
        """The node's address."""
        return f"10.89.{self.number}.1"

    @property
    def settings(self) -> Settings:
        """The settings of `tempolet up` for the node; with the kubelet, only its containerd is used."""
        known = recorded(self.home / "run")
        if known:
            return known
        ui, api_port = free_ports(2)
        return Settings(
            state_dir=self.home / "state",
            run_dir=self.home / "run",
            hostname_override=NODE,
            kubeconfig=str(self.home / "plane" / f"system-node-{NODE}.kubeconfig"),
            node_ip=self.address,
            network=PodNetwork(f"tplone{self.number}", f"10.212.{self.number * 4}.0/22"),
            cgroup=f"/tempolet-one-{self.number}",
            ports=Ports(ui, 0, 0),
            given_configuration=GivenConfiguration(self._kubelet_keys() | {"port": api_port}),
        )

    @property
    def kubelet(self) -> RealKubelet:
        """The real kubelet, if it is the node agent."""
        return RealKubelet(self.home, self.settings)

    def start(self, show: Progress | None = None) -> None:
        """Start everything that does not run yet, and wait until the node is Ready; raises the reason if it fails."""
        said = show or Progress()
        self.home.mkdir(parents=True, exist_ok=True)
        self.home.chmod(0o711)  # pods in user namespaces must be able to reach their root file system
        with said.step("plane") as step:
            if self.plane.find_running():
                step.detail = f"{self.plane.server}, runs already"
            else:
                self.plane.start()
                self.plane.node_kubeconfig(NODE)
                add_address(self._device, self.address)
                step.detail = self.plane.server
        if self.number and not recorded(self.settings.run_dir):
            remove_leftovers(self.settings.containerd)
        if self.peer == "kubelet":
            with said.step("kubelet") as step:
                step.detail = f"pid {self.kubelet.start(self.plane.programs / 'kubelet').pid}"
                self._until_ready()
        else:
            up(self.settings, progress=said)
            self._until_ready()

    def stop(self, show: Progress | None = None) -> None:
        """Stop everything and leave nothing; raises ClusterFailed naming what is left."""
        settings = self.settings
        with contextlib.ExitStack() as every:  # called in reverse
            every.callback(shutil.rmtree, self.home, ignore_errors=True)
            every.callback(remains.unmount_below, self.home)
            every.callback(delete_link, self._device)
            every.callback(self.plane.stop)
            if self.kubelet.was_here:
                every.callback(self.kubelet.stop)
            else:
                every.callback(down, settings, show, purge=True)
        if left := [*what_is_left(settings), *([str(self.home)] if self.home.exists() else [])]:
            raise ClusterFailed(f"left of the cluster: {'; '.join(left)}")

    @property
    def _device(self) -> str:
        return f"tploneip{self.number}"

    def keep_logs(self, into: Path) -> None:
        """Copy every process's log, since `stop` removes them."""
        folder = into / "logs"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for log in (*self.plane.directory.glob("*.log"), *(self.home / "state" / "log").glob("*.log")):
            shutil.copyfile(log, folder / log.name)

    def _until_ready(self) -> None:
        self.plane.api.until(f"/api/v1/nodes/{NODE}", lambda node: condition(node, "Ready") == "True", "the node Ready")

    def _kubelet_keys(self) -> dict[str, Any]:
        """Return the configuration that a kubelet and ours share, so that they are compared alike."""
        return {
            "address": self.address,
            "failSwapOn": False,
            "failCgroupV1": False,
            "authentication": {"x509": {"clientCAFile": str(self.plane.pki / "ca.crt")}, "webhook": {"enabled": True}},
            "authorization": {"mode": "Webhook"},
            "imageGCHighThresholdPercent": 100,
            "evictionHard": {"memory.available": "100Mi"},
        }
