"""The services that sandboxes use."""

from typing import Protocol

from activities.clients.runtime import RuntimeClient
from activities.execution.pod_locks import PodLocks
from activities.execution.timings import Timings
from activities.files.pod_paths import PodPaths
from activities.hardware.services import Hardware
from activities.machine.cgroups import Cgroups
from activities.objects.objects import ObjectSource
from activities.objects.terminating_pods import TerminatingPods
from activities.sandbox.user_namespaces import UserNamespaces
from activities.settings.activity_settings import ActivitySettings
from proto.temporal.pod import PodKey


class SandboxServices(Protocol):
    """The services that sandboxes use."""

    @property
    def settings(self) -> ActivitySettings: ...

    @property
    def runtime(self) -> RuntimeClient: ...

    @property
    def cgroups(self) -> Cgroups: ...

    @property
    def objects(self) -> ObjectSource: ...

    @property
    def hardware(self) -> Hardware: ...

    @property
    def user_namespaces(self) -> UserNamespaces: ...

    @property
    def locks(self) -> PodLocks: ...

    @property
    def timings(self) -> Timings: ...

    @property
    def terminating(self) -> TerminatingPods: ...

    def paths(self, pod: PodKey) -> PodPaths: ...
