"""Whether this node admits a new pod beside the pods that it has admitted.

Asked by `manifest_pods` and `api_pods` on a node of a cluster, when a pod's workflow is started for the first time; a
pod with an open workflow stays admitted, also after a restart of the poller. Asked by `resizes`, too, whether there is room for
what a pod asks for later. The rules are pure
(`workflows/decide/eviction/admission.py`, `workflows/decide/node/node_admission.py`, `supported_cluster.py`); this module collects the pods that count and the
Node.
"""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

import structlog

from proto.pod_snapshot import FINAL_PHASES
from proto.temporal.pod import Lifecycle, PodJson
from proto.temporal.pod_inputs import Rejected
from worker.poller.manifests.gated_fields import fields_of_gates_off
from worker.poller.runtime.known_pods import KnownPods
from worker.settings.kubelet.feature_gates import FeatureGates
from workflows.decide.manifest.fields.supported_cluster import unsupported_fields
from workflows.decide.node.node_admission import Footprint, NodeFacts, footprint, why_not_taken

UNSUPPORTED: Final = "PodFeatureUnsupported"
"""The kubelet's reason for a pod that needs a feature the node does not have (pkg/kubelet/lifecycle/handlers.go)."""
UNEXPECTED: Final = "UnexpectedAdmissionError"
AFFINITY: Final = "NodeAffinity"

_log: Final = structlog.get_logger(__name__)


class Node(Protocol):
    """Knows our Node."""

    async def read(self) -> None:
        """Read it from the API."""

    def facts(self) -> NodeFacts:
        """Return what is known."""


class NodeAdmission:
    """Remembers which pods were admitted."""

    def __init__(
        self,
        node: Node,
        known: KnownPods,
        gates: FeatureGates,
        present: Callable[[], Mapping[str, PodJson]],
        *,
        under_pressure: Callable[[PodJson], Rejected | None],
    ) -> None:
        """Take the Node, the worker's snapshots, and a function that returns all pods listed here, by uid, as they are granted.

        `under_pressure` says why the node refuses a pod because of its pressure.
        """
        self._under_pressure = under_pressure
        self.in_use: Callable[[str, PodJson], PodJson] = lambda _, pod: pod
        """Returns a pod with what it still has while its resize is carried out."""
        self._node, self._known, self._gates, self._present = node, known, gates, present
        self._taken: set[str] = set()
        self._refused: set[str] = set()
        self._footprints: dict[str, tuple[PodJson, Footprint]] = {}

    async def admit(self, pod: PodJson, *, static: bool = False) -> Rejected | None:
        """Return why the pod is rejected; None admits it."""
        uid, name = pod["metadata"]["uid"], f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        try:
            why = self._under_pressure(pod)
            why = why or (None if static else self._unsupported(pod))
            why = why or self._why_not(pod, static=static)
            if why and why.reason == AFFINITY:
                await self._node.read()
                why = self._why_not(pod, static=static)
        except Exception as error:  # noqa: BLE001 - other pods must not be affected
            _log.exception("could not decide on the admission of a pod; please report this", pod=name, podUID=uid)
            why = Rejected(UNEXPECTED, f"{type(error).__name__}: {error}"[:500])
        if why is None:
            self._taken.add(uid)
        else:
            self._refused.add(uid)
            _log.warning("this node rejects a pod", pod=name, podUID=uid, reason=why.reason, err=why.message)
        return why

    def why_not_resized(self, pod: PodJson, allocated: PodJson, *, static: bool) -> Rejected | None:  # noqa: ARG002 - the Protocol's signature
        """Return why a pod cannot have the resources that it asks for; the Node is not read anew for a resize."""
        return self._under_pressure(pod) or self._why_not(pod, static=static)

    def _unsupported(self, pod: PodJson) -> Rejected | None:
        found = (*unsupported_fields(pod), *fields_of_gates_off(pod["spec"], self._gates))
        return Rejected(UNSUPPORTED, "; ".join(found)) if found else None

    def _why_not(self, pod: PodJson, *, static: bool) -> Rejected | None:
        """Judge it beside all admitted pods; only if that is too much, find out which of them have ended."""
        present, node = self._present(), self._node.facts()
        for remembered in (self._taken, self._refused, self._footprints.keys()):
            for uid in [uid for uid in remembered if uid not in present]:
                self._forget(uid)
        others = {uid: one for uid, one in present.items() if uid != pod["metadata"]["uid"]}
        found = {
            uid: self._footprint(uid, self.in_use(uid, one)) for uid, one in others.items() if self._was_taken(uid)
        }
        if why_not_taken(pod, node, list(found.values()), static=static) is None:
            return None
        return why_not_taken(pod, node, [one for uid, one in found.items() if not self._is_over(uid)], static=static)

    def _was_taken(self, uid: str) -> bool:
        return uid in self._taken or (uid not in self._refused and self._known.of(uid) is not None)

    def _is_over(self, uid: str) -> bool:
        snapshot = self._known.of(uid)
        return bool(snapshot and (snapshot.lifecycle == Lifecycle.TERMINATED or snapshot.phase in FINAL_PHASES))

    def _footprint(self, uid: str, pod: PodJson) -> Footprint:
        known = self._footprints.get(uid)
        if known is None or known[0] is not pod:
            known = self._footprints[uid] = (pod, footprint(pod))
        return known[1]

    def _forget(self, uid: str) -> None:
        self._taken.discard(uid)
        self._refused.discard(uid)
        self._footprints.pop(uid, None)
