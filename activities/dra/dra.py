"""Prepares the ResourceClaims of a pod before its sandbox, and undoes them after its containers.

Each may run twice, late, or halfway: a driver is asked again for a claim that is not known to be prepared, and for one that is not known
to be undone, as by the kubelet.
"""

from temporalio import activity

from activities.dra.services import DynamicResourceServices, ResourcesRefused
from activities.execution.errors import non_retryable_failure
from activities.execution.heartbeat import heartbeating
from activities.objects.terminating_pods import PodTerminatingError
from proto.temporal import names
from proto.temporal.activities.claims import PreparedResources, PrepareResources, UnprepareResources
from proto.temporal.failure_types import FAILED_PREPARE_DYNAMIC_RESOURCES, FAILED_UNPREPARE_DYNAMIC_RESOURCES


class DynamicResourceActivities:
    """The activities of dynamic resource allocation."""

    def __init__(self, services: DynamicResourceServices) -> None:
        self._services = services

    @activity.defn(name=names.PREPARE_RESOURCES)
    async def prepare_resources(self, request: PrepareResources) -> PreparedResources:
        """Prepare all claims; fails with the kubelet's words if one cannot be, or when the pod begins to terminate meanwhile."""
        services, preparing = self._services, "Failed to prepare dynamic resources: prepare dynamic resources"
        async with heartbeating(f"prepare the resource claims of {request.pod}"):
            work = services.dynamic_resources.prepare(request.pod, request.pod_spec)
            try:
                return await services.terminating.unless_terminating(request.pod.uid, work)
            except (ResourcesRefused, PodTerminatingError) as error:
                raise non_retryable_failure(FAILED_PREPARE_DYNAMIC_RESOURCES, f"{preparing}: {error}") from None

    @activity.defn(name=names.UNPREPARE_RESOURCES)
    async def unprepare_resources(self, request: UnprepareResources) -> None:
        """Undo them; fails if a driver cannot, and is tried again."""
        async with heartbeating(f"unprepare the resource claims of {request.pod}"):
            try:
                await self._services.dynamic_resources.unprepare(request.pod.uid)
            except ResourcesRefused as error:
                message = f"unprepare dynamic resources: {error}"
                raise non_retryable_failure(FAILED_UNPREPARE_DYNAMIC_RESOURCES, message) from None
