"""A peer's own folders, bridge, subnet and cgroup, always the same, so that a later run can clean up.

Three agents cannot share a containerd: the kubelet stops every unknown sandbox with its labels. So each gets an instance of the
same program with the same configuration.
"""

import contextlib
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from worker.standalone.containerd import Containerd
from worker.standalone.containerd_config import ContainerdPlaces
from worker.standalone.machine import leftovers as remains
from worker.standalone.machine.process import Supervised
from worker.standalone.pod_network.network import PodNetwork

HOME: Final = Path("/tmp/tempolet-bench")
"""Short, as a socket's path is limited to 107 characters; on a disk, for the containers' layers."""
NODE: Final = "bench"


@dataclass(frozen=True, slots=True)
class Place:
    """Everything that belongs to one peer."""

    name: str
    number: int

    @property
    def home(self) -> Path:
        """The folder of everything else."""
        return HOME / self.name

    @property
    def manifests(self) -> Path:
        """The folder that the peer watches."""
        return self.home / "manifests"

    @property
    def run(self) -> Path:
        """Sockets and pid files."""
        return self.home / "run"

    @property
    def root_dir(self) -> Path:
        """The peer's --root-dir."""
        return self.home / "node"

    @property
    def logs(self) -> Path:
        """The peer's log, and below it the pods'."""
        return self.home / "log"

    @property
    def cgroup(self) -> str:
        """The parent cgroup of the peer's pods."""
        return f"/tempolet-bench-{self.name}"

    def containerd(self) -> Containerd:
        """The peer's containerd."""
        network = PodNetwork(bridge=f"tplbench{self.number}", subnet=f"10.220.{self.number}.0/24")
        places = ContainerdPlaces(root=self.home, run=self.run)
        return Containerd(places, network, cgroup=self.cgroup)

    def process(self, name: str) -> Supervised:
        """One of the peer's processes, by its pid file."""
        return Supervised(self.run / f"{name}.pid")

    def make(self) -> None:
        """Create the folders that must exist before anything starts."""
        for folder in (self.manifests, self.root_dir, self.logs):
            folder.mkdir(parents=True, exist_ok=True, mode=0o755)

    def clear(self, processes: tuple[str, ...]) -> list[str]:
        """Stop what a run left here, killed or not, and remove everything; returns what had to be forced."""
        for name in processes:
            self.process(name).stop(within=10)
        daemon = self.containerd()
        forced = daemon.stop()
        remains.unmount_below(self.home)
        shutil.rmtree(self.home, ignore_errors=True)
        with contextlib.suppress(OSError):  # another peer's folder still exists
            HOME.rmdir()
        return forced
