"""Which pods a node refuses while it is under pressure (pkg/kubelet/eviction/eviction_manager.go Admit).

Asked before the predicates of `node/node_admission.py`. A pod that starts while memory is short would soon be evicted, so only
those that request none are refused; for disks and process ids all are, because no request reserves them.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from proto.kubernetes.resources.qos import QosClass
from proto.temporal.eviction.candidates import Candidate
from proto.temporal.pod_inputs import Rejected
from workflows.decide.eviction.messages import REASON
from workflows.decide.eviction.signals import CONDITIONS, MEMORY_PRESSURE
from workflows.decide.tolerations import tolerates

_TAINT: Final = {"key": "node.kubernetes.io/memory-pressure", "effect": "NoSchedule"}


def why_refused(pod: Candidate, tolerations: Iterable[Mapping[str, Any]], conditions: Iterable[str]) -> Rejected | None:
    """Return why a pod is refused under these conditions; None if it is admitted."""
    shown = [kind for kind in CONDITIONS if kind in conditions]
    if not shown or pod.critical:
        return None
    may_stay = pod.qos is not QosClass.BEST_EFFORT or tolerates(tolerations, _TAINT)
    if shown == [MEMORY_PRESSURE] and may_stay:
        return None
    return Rejected(REASON, f"The node had condition: [{' '.join(shown)}]. ")
