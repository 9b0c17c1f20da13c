"""What a node of a cluster adds to the poller: the API's pods, their admission, and mirror pods of static pods.

Created by the poller, and loaded, only with a kubeconfig. Static pods do not wait for any of it: they run while the API
server is down.
"""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from functools import partial

from activities.clients.api_server.api_server import ApiServer
from proto.refusals import Refusal
from proto.temporal.pod import NodeSettings, PodJson
from worker.daemon.config import NodeConfig
from worker.machine.shutdown_sign import ShutdownSign
from worker.poller.admission.node_admission import NodeAdmission
from worker.poller.admission.preemptions import Preemptions
from worker.poller.admission.under_pressure import UnderPressure
from worker.poller.calls.pod_workflows import PodWorkflows
from worker.poller.cluster.api_pod import ApiPod
from worker.poller.cluster.api_pods import ApiPods, ApiPodsDependencies
from worker.poller.cluster.api_source import ApiSource
from worker.poller.cluster.cluster_identity import FILE, ClusterIdentity
from worker.poller.cluster.mirror_pods import MirrorPods, StaticPods
from worker.poller.cluster.node_object import NodeObject
from worker.poller.manifests.manifest_pods import ManifestPods
from worker.poller.manifests.shutdowns import refusing_at_shutdown
from worker.poller.resizes.resizes import Resizes
from worker.poller.runtime.known_pods import KnownPods


@dataclass(frozen=True, slots=True)
class ClusterDependencies:
    """What ClusterPods takes from the rest of the poller."""

    workflows: PodWorkflows
    known: KnownPods
    settings: NodeSettings
    refused: Callable[[str, Refusal | None], None]
    manifests: ManifestPods
    resizes: Resizes
    preemptions: Preemptions


class ClusterPods:
    """The API's pods of one node, and its mirror pods."""

    def __init__(self, api: ApiServer, config: NodeConfig, dependencies: ClusterDependencies) -> None:
        self._known, self._manifests = dependencies.known, dependencies.manifests
        identity = ClusterIdentity(api, config.state_dir / FILE)
        self._source = ApiSource(api, config.node_name, identity, hooks=config.tempolet.hooks.allowed_on_api_pods)
        self._node = NodeObject(api, config, self._node_changed)
        self.admission = NodeAdmission(
            self._node,
            dependencies.known,
            config.feature_gates,
            self.present,
            settings=dependencies.settings,
            under_pressure=UnderPressure(config.root_dir, alone=False).why_refused,
            preemptions=dependencies.preemptions,
        )
        asked = ApiPodsDependencies(
            confirms=self._source,
            admit=refusing_at_shutdown(ShutdownSign(config.state_dir), self.admission.admit),
            shown_phase=self._shown_phase,
            refused=dependencies.refused,
            resizes=dependencies.resizes,
        )
        self.pods = ApiPods(dependencies.workflows, config.node_name, dependencies.settings, asked)
        self._mirrors = MirrorPods(api, config.node_name, lambda: self._node.uid, self._statics)

    def loops(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return the loops to run."""
        return {
            "api": partial(self._source.follow, self),
            "node object": self._node.follow,
            "mirror pods": self._mirrors.keep,
        }

    def look_again(self) -> None:
        """Signal that static pods or the Node may have changed."""
        self._mirrors.look_again()

    def _node_changed(self) -> None:
        if addresses := self._node.host_ips:  # replaces those of --node-ip, because a cloud controller may know better
            self.pods.set_host_ips(addresses)
            self._manifests.set_host_ips(addresses)
        self.look_again()

    def set_listed(self, pods: Collection[ApiPod]) -> None:
        """Take all pods that the API binds to this node."""
        self.pods.set_listed([one for one in pods if not one.mirror])
        self._mirrors.set_listed([one for one in pods if one.mirror])

    def set_changed(self, pod: ApiPod, *, removed: bool = False) -> None:
        """Take one change."""
        (self._mirrors if pod.mirror else self.pods).set_changed(pod, removed=removed)

    def present(self) -> dict[str, PodJson]:
        """Return all pods that are listed here, by uid, with the resources that they are granted."""
        of_api = {pod.uid: pod.pod for pod in self.pods.pods if not pod.ended}
        return self._manifests.present() | of_api

    def _statics(self) -> StaticPods:
        """Return the static pods; one without a snapshot is gone, whatever visibility says."""
        desired = {f"{pod.namespace}/{pod.name}": pod for pod in self._manifests.desired()}
        unlisted = ((name, uid) for name, uid in self._manifests.opened() if not self._manifests.lists(uid))
        ending = {name for name, uid in unlisted if self._known.of(uid)}
        listed = desired.keys()
        return StaticPods(
            desired,
            terminating=frozenset(ending - listed),
            complete=self._manifests.complete,
            replaced=frozenset(ending & listed),
            open_known=self._manifests.open_known,
        )

    def mirrors_wanted(self) -> int:
        """Count the static pods: each is to have a mirror pod."""
        return sum(1 for _ in self._manifests.desired())

    def _shown_phase(self, uid: str) -> str:
        snapshot = self._known.of(uid)
        return snapshot.phase if snapshot else ""
