"""The list of all activities that the worker registers.

Not in `__init__.py`: the poller also uses `clients/` and would otherwise import Temporal's worker.
"""

from collections.abc import Callable
from typing import Any

from activities.containers.containers import ContainerActivities
from activities.containers.resize import ResizeActivities
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


def activities(services: NodeServices) -> list[Callable[..., Any]]:
    """List the activities of this node."""
    directories, sandbox, volumes, images, collection, containers, resize = (
        DirectoryActivities(services),
        SandboxActivities(services),
        VolumeActivities(services),
        ImageActivities(services),
        ImageCollectionActivities(services),
        ContainerActivities(services),
        ResizeActivities(services),
    )
    return [
        directories.make_pod_directories,
        directories.remove_pod_directories,
        PodDeletionActivities(services).delete_pod_object,
        PredecessorActivities(services).await_predecessor,
        sandbox.run_pod_sandbox,
        sandbox.stop_pod_sandbox,
        sandbox.remove_pod_sandbox,
        volumes.mount_volumes,
        volumes.unmount_volumes,
        images.read_images,
        images.pull_image,
        collection.watch_images,
        collection.remove_image,
        images.prepull_image,
        containers.start_container,
        HookActivities(services).run_hook,
        containers.stop_container,
        containers.shorten_stop,
        containers.remove_container,
        resize.update_pod_sandbox_resources,
        resize.update_container_resources,
        ProbeActivities(services).probe_container,
        RuntimeFactsActivities(services).read_pod_runtime,
    ]
