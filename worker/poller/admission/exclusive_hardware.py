"""Asks for the exclusive hardware of a new pod: CPUs, memory and devices that no other pod may have.

Used by `node_admission.py`. The node's workflow, or the worker that leads it, keeps the ledger; here is only decided whether it has to
be asked (`workflows/decide/node/hardware_needs.py`).
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

from proto.temporal.pod import PodJson
from proto.temporal.pod_inputs import Rejected
from workflows.decide.node.hardware_needs import HardwarePolicies, hardware_slice, needs_hardware
from workflows.decide.node.node_admission import NodeFacts

Ask = Callable[[PodJson, Callable[[], Iterable[str]]], Awaitable[Rejected | None]]


class ExclusiveHardware:
    """The questions of one poller."""

    def __init__(self, policies: HardwarePolicies, ask: Ask) -> None:
        """Take what this node gives, and what asks the ledger until it has answered."""
        self._policies, self._ask = policies, ask

    def without_devices(self, node: NodeFacts) -> NodeFacts:
        """Leave the resources of device plugins to the ledger: a pod that was given devices has them, whatever the node can give."""
        left = {name: amount for name, amount in node.allocatable.items() if not self._policies.is_device(name)}
        return replace(node, allocatable=left)

    async def why_refused(self, pod: PodJson, counting: Callable[[], Iterable[str]]) -> Rejected | None:
        """Return why a pod cannot have its hardware; a pod that needs none is not asked for.

        `counting` returns the uids of the other pods that may have some.
        """
        if not needs_hardware(pod, self._policies):
            return None
        return await self._ask(hardware_slice(pod), counting)
