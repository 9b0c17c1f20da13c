"""The services that probes use."""

from typing import Protocol

from activities.clients.runtime import RuntimeClient
from activities.objects.terminating_pods import TerminatingPods
from activities.probes.loops import ProbeLoops
from activities.probes.outcome import ProbeListener, ReadinessListener


class ProbeServices(Protocol):
    """The services that probes use."""

    @property
    def runtime(self) -> RuntimeClient: ...

    @property
    def probes(self) -> ProbeLoops: ...

    @property
    def probe_listener(self) -> ProbeListener: ...

    @property
    def readiness_listener(self) -> ReadinessListener: ...

    @property
    def terminating(self) -> TerminatingPods: ...
