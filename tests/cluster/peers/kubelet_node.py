"""The real kubelet as a node of the session's control plane, beside a node of ours on the same machine."""

import contextlib
import fcntl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.bench.peers.kubelet import NoKubelet
from tests.cluster.cluster_node import pods_path
from tests.cluster.control_plane import ControlPlane
from tests.cluster.peers.real_kubelet import RealKubelet
from tests.free_ports import free_ports
from tests.killed_sessions import remove_leftovers
from tests.own_number import LOCKS
from worker.standalone.given_configuration import GivenConfiguration
from worker.standalone.pod_network.network import PodNetwork
from worker.standalone.settings import Settings

NAME: Final = "real-kubelet"
LOCK: Final = LOCKS / "tempolet-kubelet"


@dataclass(frozen=True, slots=True)
class KubeletNode:
    """The session's dependencies of the kubelet; the fixture `kubelet_node`."""

    program: Path
    plane: ControlPlane
    node_ip: str
    slot: int

    @property
    def cgroup(self) -> str:
        """The value of cgroupRoot."""
        return f"/tempolet-kubelet-{self.slot}"

    @contextlib.contextmanager
    def running(
        self,
        home: Path,
        keys: Mapping[str, Any],
        environment: Mapping[str, str] | None = None,
        *,
        files: Mapping[str, bytes] | None = None,
    ) -> Iterator[str]:
        """Run it with these keys of its configuration, more variables and files of its root directory; yields its node's name.

        Leaves nothing in the API. Waits for the kubelets of other sessions; skips the test if one runs that is not of the tests.
        """
        with alone():
            yield from self._running(home, keys, environment, files)

    def _running(
        self,
        home: Path,
        keys: Mapping[str, Any],
        environment: Mapping[str, str] | None,
        files: Mapping[str, bytes] | None,
    ) -> Iterator[str]:
        home.mkdir()
        settings = self._settings(home, keys)
        for name, content in (files or {}).items():
            settings.root_dir.mkdir(parents=True, exist_ok=True)
            (settings.root_dir / name).write_bytes(content)
        remove_leftovers(settings.containerd)
        kubelet = RealKubelet(home, settings, environment or {})
        try:
            kubelet.start(self.program)
            yield NAME
        except NoKubelet as error:
            pytest.skip(str(error))
        finally:
            if kubelet.was_here:
                kubelet.stop()
            self._remove_from_api()

    @staticmethod
    def root_dir(home: Path) -> Path:
        """Return the root directory of a kubelet that runs in this folder."""
        return Settings(state_dir=home / "state", run_dir=home / "run").root_dir

    def _settings(self, home: Path, keys: Mapping[str, Any]) -> Settings:
        more = {"port": free_ports(1)[0], "failCgroupV1": False, "failSwapOn": False}
        return Settings(
            state_dir=home / "state",
            run_dir=home / "run",
            hostname_override=NAME,
            kubeconfig=str(self.plane.node_kubeconfig(NAME)),
            node_ip=self.node_ip,
            network=PodNetwork(f"tplkube{self.slot}", f"10.221.{self.slot}.0/24"),
            cgroup=self.cgroup,
            given_configuration=GivenConfiguration({**keys, **more}),
        )

    def _remove_from_api(self) -> None:
        api = self.plane.api
        for pod in api.get(f"/api/v1/pods?fieldSelector=spec.nodeName%3D{NAME}")["items"]:
            api.delete(pods_path(pod["metadata"]["namespace"], pod["metadata"]["name"]), gracePeriodSeconds=0)
        api.delete(f"/api/v1/nodes/{NAME}")
        api.delete(f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{NAME}")


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Wait until no other session has a kubelet, and keep them waiting: each serves `kubelet.sock` in one folder of the machine."""
    LOCK.parent.mkdir(parents=True, exist_ok=True)
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
