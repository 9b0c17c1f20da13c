"""The dependencies of every part of the node process, created once by `worker/processes/node.py`."""

from dataclasses import dataclass, field

from activities.clients.api_server.api_server import ApiServer
from activities.clients.runtime import RuntimeClient
from worker.daemon.config import NodeConfig
from worker.daemon.health import LoopHealth
from worker.daemon.service import Service
from worker.events.recorder import EventRecorder
from worker.node.process.certificate_facts import CertificateFacts
from worker.node.process.node_metrics import NodeMetrics
from worker.node.process.peers import PeerProcesses
from worker.settings.cluster import ClusterSettings
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
        object.__setattr__(self, "stats", NodeStats(self.config, self.runtime))
        limits = {"qps": self.cluster.event_qps, "burst": self.cluster.event_burst}
        object.__setattr__(self, "recorder", EventRecorder(self.api, self.config.node_name, **limits))
