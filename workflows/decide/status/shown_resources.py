"""The cpu and memory in a container's status (pkg/kubelet/kubelet_pods.go convertContainerStatusResources).

A running container shows what it has: what it was started with, what a resize has not changed yet, or what the runtime
reported after one. Any other shows what it is granted. Resources that the spec does not name are not shown.
"""

from typing import Final

from kubernetes.client.models.v1_container import V1Container
from kubernetes.client.models.v1_resource_requirements import V1ResourceRequirements

from proto.kubernetes.resources.quantity import canonical_quantity
from proto.kubernetes.resources.resources import milli_cpu_of_quota, milli_cpu_of_shares
from proto.temporal.pod import ContainerFacts, ContainerState
from proto.temporal.resources import RuntimeResources
from workflows.decide.resources.allocation import current_resources
from workflows.decide.resources.resources import compute
from workflows.decide.situation import Situation

SMALLEST_LIMIT: Final = 10
"""Milli-CPU. The kernel is given the same for less, so what was granted is shown (cm/helpers_linux.go MinMilliCPULimit)."""
SMALLEST_REQUEST: Final = 2
"""The same for requests (MinShares)."""


def shown_resources(
    situation: Situation, container: V1Container, facts: ContainerFacts
) -> V1ResourceRequirements | None:
    """Return what a container has; None if the runtime never had it."""
    if not facts.container_id:
        return None
    runs = facts.state is ContainerState.RUNNING and facts.exit is None
    resize = situation.observed.resize
    if not runs or (facts.resources is None and (resize is None or container.name not in resize.containers)):
        return container.resources
    known = current_resources(situation, container.name)
    shown = V1ResourceRequirements(limits=known.get("limits"), requests=known.get("requests"))
    return shown if facts.resources is None else as_reported(shown, facts.resources)


def as_reported(known: V1ResourceRequirements, reported: RuntimeResources) -> V1ResourceRequirements:
    """Show what the runtime reports; it reports no memory request."""
    wanted = compute({"limits": known.limits or {}, "requests": known.requests or {}})
    limits, requests = dict(known.limits or {}), dict(known.requests or {})
    limit = milli_cpu_of_quota(reported.cpu_quota, reported.cpu_period)
    if known.limits is not None and limit and max(limit, wanted.cpu_limit) > SMALLEST_LIMIT:
        limits["cpu"] = canonical_quantity(f"{limit}m")
    if known.limits is not None and reported.memory_limit_in_bytes:
        limits["memory"] = binary_quantity(reported.memory_limit_in_bytes)
    request = milli_cpu_of_shares(reported.cpu_shares)
    if known.requests is not None and request and max(request, wanted.cpu_request) > SMALLEST_REQUEST:
        requests["cpu"] = canonical_quantity(f"{request}m")
    return V1ResourceRequirements(limits=limits or None, requests=requests or None)


def binary_quantity(amount: int) -> str:
    """Write bytes as the API does: 104857600 is 100Mi."""
    return str(amount) if amount % 1024 else canonical_quantity(f"{amount // 1024}Ki")
