"""The resources of the pod as a whole in its status (kubelet_pods.go getEffectiveAllocatedResources).

Only for a pod with pod-level resources. The kubelet also shows the sums of other pods' containers, which the container
statuses already have.
"""

from kubernetes.client.models.v1_resource_requirements import V1ResourceRequirements

from proto.kubernetes.resources.amounts import format_amount
from proto.kubernetes.resources.overhead import limits_and_overhead, requests_and_overhead
from proto.kubernetes.resources.pod_totals import ResourceList, pod_limits
from proto.temporal.pod import PodJson


def allocated_resources(pod: PodJson) -> dict[str, str] | None:
    """Return the pod's allocated requests."""
    return _said(requests_and_overhead(pod)) if pod["spec"].get("resources") else None


def pod_resources_shown(pod: PodJson) -> V1ResourceRequirements | None:
    """Return the pod's requests and limits, with its overhead."""
    if not pod["spec"].get("resources"):
        return None
    requests, limits = requests_and_overhead(pod), limits_and_overhead(pod, pod_limits(pod))
    return V1ResourceRequirements(requests=_said(requests), limits=_said(limits))


def _said(amounts: ResourceList) -> dict[str, str] | None:
    return {name: format_amount(name, amount) for name, amount in amounts.items()} or None
