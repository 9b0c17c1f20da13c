"""The node on which scenarios play, one after the other, for as long as they hold: a start of its own for each would take longer than they do.

Its pod beside lives as long as it does.
"""

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import grpc

from activities.files import mounts
from proto.pod_snapshot import PodSnapshot
from proto.temporal.names import NAMESPACE as TEMPORAL_NAMESPACE
from tests.chaos.node.api_proxy import ApiProxy
from tests.chaos.node.cni_plugin import CniPlugin
from tests.chaos.node.cri_proxy import CriProxy
from tests.chaos.node.pods import BYSTANDER, Expected, one
from tests.chaos.node.scene import Place
from tests.chaos.node.stepped_clock import SteppedClock
from tests.chaos.node.temporal_proxy import TemporalProxy
from tests.cluster.cluster_node import NAMESPACE, ClusterNode, pods_path
from tests.cluster.control_plane import ControlPlane, write_kubeconfig
from tests.csi.orders import Setup
from tests.csi.process import DriverProcess
from tests.node.kept_objects import put_object
from tests.node.tempolet_node import TempoletNode
from worker.standalone.containerd import Containerd, ContainerdFailed
from worker.standalone.temporal_server import TemporalServer

AWAY_AFTER: Final = 3.0
STATE_BYTES: Final = 64 << 20
KEYS: Final = {
    "featureGates": {"KubeletCrashLoopBackOffMax": True},
    "crashLoopBackOff": {"maxContainerRestartPeriod": "1s"},
    "syncFrequency": "10s",
}


@dataclass(frozen=True, slots=True)
class Session:
    """What all stages of a session share."""

    containerd: Containerd
    """Its network plugin is `cni`."""
    temporal: TemporalServer
    cni: CniPlugin
    cluster: Callable[[], tuple[ControlPlane, str]]
    """Starts the control plane, once; returns it and an address for nodes. It may skip the test."""


@dataclass
class Stage:
    """A node, what is between it and everything else, and the pod beside."""

    session: Session
    place: Place
    folder: Path
    at_last: contextlib.ExitStack
    after_node: contextlib.ExitStack
    """What is closed once the node has ended: its last pods may need it."""
    proxy: CriProxy
    node: TempoletNode
    clock: SteppedClock | None = None
    api: ApiProxy | None = None
    way_to_temporal: TemporalProxy | None = None
    driver: DriverProcess | None = None
    played: int = 0
    """Scenarios."""
    bystander: Expected = field(init=False)

    def __post_init__(self) -> None:
        """Start the pod beside."""
        manifest, self.bystander = one(BYSTANDER)
        self.node.apply(manifest)

    def beside(self) -> PodSnapshot:
        """Return the pod beside, once it runs."""
        return self.node.until_running(self.bystander.name)

    def csi_driver(self) -> DriverProcess:
        """Return the node's CSI driver, which is started at the first call."""
        if self.driver is None:
            name = f"{self.node.name}.chaos"
            put_object(self.node, "csidrivers", name, spec={"attachRequired": False})
            folder = self.after_node.enter_context(tempfile.TemporaryDirectory(prefix="csi.", dir="/tmp"))
            made = DriverProcess(Path(folder), self.node.root_dir / "plugins_registry", Setup(name))
            self.driver = self.after_node.enter_context(made)
        return self.driver

    def bind(self, claim: str) -> None:
        """Write a volume of the CSI driver and its claim."""
        mode = {"volumeMode": "Filesystem", "accessModes": ["ReadWriteOnce"]}
        made_of = {"driver": self.csi_driver().setup.name, "volumeHandle": claim}
        reference = {"namespace": NAMESPACE, "name": claim}
        put_object(self.node, "persistentvolumes", claim, spec={"csi": made_of, "claimRef": reference, **mode})
        put_object(self.node, "persistentvolumeclaims", claim, spec={"volumeName": claim, **mode})


class Stages:
    """At most one stage at a time; a context manager that closes the last one."""

    def __init__(self, session: Session, folder: Callable[[], Path]) -> None:
        self._session, self._folder = session, folder
        self._open: Stage | None = None

    def at(self, place: Place) -> Stage:
        """Return a stage at a place: the open one, if it is there."""
        if self._open is not None and self._open.place is not place:
            self.close()
        if self._open is None:
            self._open = opened(self._session, place, self._folder())
        return self._open

    def close(self) -> None:
        """Close the open stage; raises TimeoutError if its pod beside stays."""
        stage, self._open = self._open, None
        if stage is not None:
            with stage.at_last:
                stage.node.take_away(stage.bystander.name)

    def drop(self) -> None:
        """Close the open stage after a scenario has failed, and remove its pods: the next one must find none."""
        stage, self._open = self._open, None
        if stage is not None:
            stage.at_last.close()
            with contextlib.suppress(ContainerdFailed, grpc.RpcError):
                stage.session.containerd.start()
                stage.session.containerd.remove_pods()


def opened(session: Session, place: Place, folder: Path) -> Stage:
    """Start a node at a place."""
    session.containerd.start()  # an earlier scenario may have failed between a kill and the start after it
    session.temporal.start()
    with contextlib.ExitStack() as started:
        proxy = started.enter_context(CriProxy(folder / "cri", session.containerd.endpoint))
        started.enter_context(own_disk(folder / "node" / "kubelet" / "tempolet"))
        clock, api, way, more = None, None, None, dict[str, Any]()
        if place is Place.OWN_CLOCK:
            clock = SteppedClock(folder)
            more = {"environment": clock.environment}
        if place is Place.FAR_FROM_TEMPORAL:
            way = started.enter_context(TemporalProxy(session.temporal.address))
            temporal = {"address": way.address, "namespace": TEMPORAL_NAMESPACE, "awayAfter": f"{AWAY_AFTER:g}s"}
            more = {"own_keys": {"temporal": temporal}}
        kind: type[TempoletNode] = TempoletNode
        if place is Place.CLUSTER:
            plane, address = session.cluster()
            api, kind = started.enter_context(ApiProxy(plane.port)), NodeOfApi
            name = f"chaos-{folder.name[-6:]}".lower()
            identity = plane.sign(f"system:node:{name}", "system:nodes")
            kubeconfig = write_kubeconfig(folder / "kubeconfig", api.server, plane.pki / "ca.crt", identity)
            more = {"plane": plane, "node_ip": address, "kubeconfig": kubeconfig, "name": name}
        keys = {"containerRuntimeEndpoint": proxy.endpoint, **KEYS}
        after_node = started.enter_context(contextlib.ExitStack())
        made = kind(
            folder / "node", session.containerd, session.temporal, keys=keys, away_after=f"{AWAY_AFTER:g}s", **more
        )
        node = started.enter_context(made)
        node.until_started()
        stage = Stage(session, place, folder, started, after_node, proxy, node, clock, api, way)
        stage.at_last = started.pop_all()
    return stage


class NodeOfApi(ClusterNode):
    """A node whose pods are created and deleted in the API."""

    def apply(self, manifest: dict[str, Any], file: str = "") -> None:  # noqa: ARG002 - of a folder with manifests
        """Create a pod."""
        self.create_pod(manifest)

    def remove(self, name: str) -> None:
        """Delete it."""
        self.api.delete(pods_path(NAMESPACE, name))


@contextlib.contextmanager
def own_disk(folder: Path) -> Iterator[None]:
    """Give a folder a small file system of its own, which a fault fills or makes read-only."""
    folder.mkdir(parents=True, mode=0o700)
    mounts.mount("tmpfs", folder, "tmpfs", options=(f"size={STATE_BYTES}", "mode=0700"))
    try:
        yield
    finally:
        mounts.unmount(folder)
