"""What containers have to themselves, as PodResources tells it.

The worker chooses, and leaves the kubelet's state files; they are read here, because this is another process.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import structlog

from proto.podresources.v1 import api_pb2 as api
from worker.settings.hardware.cpu_manager import CpuManager
from workflows.decide.cpus.state_file import STATE_FILE, read_state
from workflows.decide.cpus.static_policy import Assignments

_log = structlog.get_logger(__name__)


class AssignedHardware(Protocol):
    """One kind of hardware: CPUs; memory, devices and claims join here."""

    def read(self) -> None:
        """Read what is assigned now, before a request is answered. Blocks."""

    def add(self, container: api.ContainerResources, pod_uid: str) -> None:
        """Add what a container has."""

    def add_allocatable(self, answer: api.AllocatableResourcesResponse) -> None:
        """Add what containers may have."""


@dataclass(slots=True)
class AssignedCpus:
    """The exclusive CPUs in `<root-dir>/cpu_manager_state`."""

    settings: CpuManager
    root_dir: Path
    _known: Assignments = Assignments()  # noqa: RUF009 - it is frozen

    def read(self) -> None:
        """Read the file; one that is absent or broken says nothing, and the worker refuses a broken one at its start."""
        if self.settings.static is None:
            return
        try:
            self._known = read_state(self.settings.policy, (self.root_dir / STATE_FILE).read_text())
        except (OSError, ValueError, RecursionError) as error:
            _log.warning("exclusive CPUs can't be listed", err=str(error))
            self._known = Assignments()

    def add(self, container: api.ContainerResources, pod_uid: str) -> None:
        """Add a container's own CPUs."""
        container.cpu_ids.extend(sorted(self._known.of(pod_uid, container.name) or ()))

    def add_allocatable(self, answer: api.AllocatableResourcesResponse) -> None:
        """Add all CPUs but the reserved ones; none with the policy none."""
        if policy := self.settings.static:
            answer.cpu_ids.extend(sorted(policy.allocatable))


Assigned = Sequence[AssignedHardware]
