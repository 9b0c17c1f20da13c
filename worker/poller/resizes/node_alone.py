"""What a node without a cluster has for the resizes of its pods.

Such a node admits every pod, so its pods may together ask for more than it has. So only what a resize asks for in addition is
judged: a pod that asks for less, or for no more than it has, is not refused because of others.
"""

from collections.abc import Callable, Mapping

from proto.kubernetes.resources.quantity import ZERO, Quantity
from proto.temporal.pod import PodJson
from proto.temporal.pod_inputs import Rejected
from worker.poller.resizes.resizes import Resizes
from workflows.decide.node.node_admission import NodeFacts, footprint, lacking
from workflows.decide.resources.resizes import requests


class NodeAlone:
    """Judges resizes on a node without a cluster."""

    def __init__(
        self,
        name: str,
        allocatable: Callable[[], Mapping[str, Quantity]],
        pods: Callable[[], Mapping[str, PodJson]],
        resizes: Resizes,
        *,
        refused: Callable[[PodJson], Rejected | None],
    ) -> None:
        """Take what the node has, and its pods by uid; `refused` says why it refuses a pod at all."""
        self._name, self._allocatable, self._pods, self._resizes = name, allocatable, pods, resizes
        self._refused = refused

    def why_not_resized(self, pod: PodJson, allocated: PodJson, *, static: bool) -> Rejected | None:  # noqa: ARG002 - the Protocol's signature
        """Return why a pod cannot have what it asks for beside the others; None if it can."""
        if why := self._refused(pod):
            return why
        before, after = requests(allocated), requests(pod)
        more = {name: amount for name, amount in after.items() if amount > before.get(name, ZERO)}
        others = [
            footprint(self._resizes.in_use(uid, one))
            for uid, one in self._pods().items()
            if uid != pod["metadata"]["uid"] and not self._resizes.is_over(uid)
        ]
        node = NodeFacts(self._name, allocatable=self._allocatable())
        return next(lacking(more, node, others), None)
