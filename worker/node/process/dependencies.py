"""The dependencies of every part of the node process, created once by `worker/processes/node.py`."""

from dataclasses import dataclass, field
from functools import partial

from activities.clients.api_server.api_server import ApiServer
from activities.clients.runtime import RuntimeClient
from worker.daemon.config import NodeConfig
from worker.daemon.health import LoopHealth
from worker.daemon.service import Service
from worker.events.event import WARNING, ObjectReference
from worker.events.recorder import EventRecorder
from worker.machine.csi_endpoints import recorded_endpoints
from worker.node.process.certificate_facts import CertificateFacts
from worker.node.process.node_metrics import NodeMetrics
from worker.node.process.peers import PeerProcesses
from worker.settings.cluster import ClusterSettings
from worker.settings.kubelet.feature_gates import VOLUME_HEALTH_GATE
from worker.stats.disks.csi_volumes import CsiReads
from worker.stats.disks.volumes import KEEP, WAIT, Volume, Volumes
from worker.stats.node_stats import NodeStats


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDependencies:
    """Clients, configuration and shared state of the node process."""

    config: NodeConfig
    cluster: ClusterSettings
    api: ApiServer
    runtime: RuntimeClient
    service: Service
    processes: PeerProcesses
    health: LoopHealth = field(default_factory=LoopHealth)
    certificates: dict[str, CertificateFacts] = field(default_factory=dict)
    """By `client` and `server`; only those that the node rotates itself."""
    metrics: NodeMetrics = field(default_factory=NodeMetrics)
    stats: NodeStats = field(init=False)
    """Resource usage of the node and its pods."""
    recorder: EventRecorder = field(init=False)
    """Records events of the node; a separate part sends them."""

    def __post_init__(self) -> None:
        limits = {"qps": self.cluster.event_qps, "burst": self.cluster.event_burst}
        object.__setattr__(self, "recorder", EventRecorder(self.api, self.config.node_name, **limits))
        health = self.config.feature_gates.enabled(VOLUME_HEALTH_GATE)
        endpoints, timed = partial(recorded_endpoints, self.config.state_dir), self.metrics.volume_measured
        drivers = CsiReads(endpoints, keep=KEEP, wait=WAIT, health=health, timed=timed)
        stats = NodeStats(self.config, self.runtime, volumes=Volumes(drivers, self._tell_abnormal, timed))
        object.__setattr__(self, "stats", stats)

    def _tell_abnormal(self, volume: Volume, message: str) -> None:
        """Record the kubelet's event of a volume that its driver calls abnormal."""
        pod = ObjectReference("Pod", volume.pod_name, volume.pod_uid, volume.namespace)
        self.recorder.record(pod, WARNING, "VolumeConditionAbnormal", f"Volume {volume.name}: {message}")
