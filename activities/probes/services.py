"""What probes use of the node."""

from typing import Protocol

from activities.clients.runtime import RuntimeClient
from activities.objects.going_pods import GoingPods
from activities.probes.loops import ProbeLoops
from activities.probes.outcome import ProbeHeard


class ProbeServices(Protocol):
    """What probes use of the node."""

    @property
    def runtime(self) -> RuntimeClient: ...

    @property
    def probes(self) -> ProbeLoops: ...

    @property
    def probe_heard(self) -> ProbeHeard: ...

    @property
    def going(self) -> GoingPods: ...
