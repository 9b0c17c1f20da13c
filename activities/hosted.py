"""The list of all activities that the worker registers.

Not in `__init__.py`: the poller also uses `clients/` and would otherwise import Temporal's worker.
"""

from collections.abc import Callable
from typing import Any, Final

from activities.containers.containers import ContainerActivities
from activities.containers.resize import ResizeActivities
from activities.dra.dra import DynamicResourceActivities
from activities.hardware.hardware import HardwareActivities
from activities.hooks.hooks import HookActivities
from activities.images.image_collection import ImageCollectionActivities
from activities.images.images import ImageActivities
from activities.node_services import NodeServices
from activities.pods.directories import DirectoryActivities
from activities.pods.pod_deletion import PodDeletionActivities
from activities.pods.predecessor import PredecessorActivities
from activities.probes.container_probes import ProbeActivities
from activities.runtime.runtime_facts import RuntimeFactsActivities
from activities.sandbox.sandbox import SandboxActivities
from activities.volumes.pod_volumes import VolumeActivities

_DEFINITION: Final = "__temporal_activity_definition"  # what @activity.defn leaves on a method
HOSTS: Final = (
    DirectoryActivities,
    PodDeletionActivities,
    PredecessorActivities,
    SandboxActivities,
    VolumeActivities,
    ImageActivities,
    ImageCollectionActivities,
    ContainerActivities,
    HookActivities,
    ResizeActivities,
    ProbeActivities,
    RuntimeFactsActivities,
    HardwareActivities,
    DynamicResourceActivities,
)
"""The classes whose methods are activities."""


def activities(services: NodeServices) -> list[Callable[..., Any]]:
    """List the activities of this node, bound to its services."""
    return [
        getattr(host, name)
        for host in [one(services) for one in HOSTS]
        for name, method in vars(type(host)).items()
        if hasattr(method, _DEFINITION)
    ]
