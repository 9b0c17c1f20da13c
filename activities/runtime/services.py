"""The services that reading the runtime uses."""

from typing import Protocol

from activities.clients.runtime import RuntimeClient
from activities.probes.loops import ProbeLoops


class RuntimeServices(Protocol):
    """The services that reading the runtime uses."""

    @property
    def runtime(self) -> RuntimeClient: ...

    @property
    def probes(self) -> ProbeLoops: ...
