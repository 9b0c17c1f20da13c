"""Chooses exclusive hardware for a new pod: which CPUs, memory and devices each of its containers has.

The node's workflow asks for one pod after the other, and keeps the answers. May run twice, late, or halfway: what was chosen for a
pod before is answered again.
"""

from temporalio import activity

from activities.execution.errors import non_retryable_failure
from activities.execution.heartbeat import heartbeating
from activities.hardware.services import HardwareRefused, HardwareServices
from proto.temporal import names
from proto.temporal.hardware.ledger import AllocateHardware, PodAssignment


class HardwareActivities:
    """The activity of exclusive hardware."""

    def __init__(self, services: HardwareServices) -> None:
        self._services = services

    @activity.defn(name=names.ALLOCATE_HARDWARE)
    async def allocate_hardware(self, request: AllocateHardware) -> PodAssignment:
        """Choose hardware; fails for good with the kubelet's reason if the pod cannot have it."""
        metadata = request.pod["metadata"]
        async with heartbeating(f"choose hardware for {metadata['namespace']}/{metadata['name']}"):
            try:
                return await self._services.hardware.allocate(request)
            except HardwareRefused as refused:
                raise non_retryable_failure(refused.reason, str(refused)) from None
