"""What reading the runtime uses of the node."""

from typing import Protocol

from activities.clients.runtime import RuntimeClient
from activities.probes.loops import ProbeLoops


class RuntimeServices(Protocol):
    """What reading the runtime uses of the node."""

    @property
    def runtime(self) -> RuntimeClient: ...

    @property
    def probes(self) -> ProbeLoops: ...
