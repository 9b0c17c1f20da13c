"""Every side effect of a pod's life, each idempotent, against the container runtime and the node's file system.

`activities(services)` is all that the worker needs: it hosts what this answers.
"""

from collections.abc import Callable
from typing import Any

from activities.containers import ContainerActivities
from activities.directories import DirectoryActivities
from activities.hooks import HookActivities
from activities.images import ImageActivities
from activities.node_services import NodeServices
from activities.predecessor import PredecessorActivities
from activities.probes.container_probes import ProbeActivities
from activities.runtime_facts import RuntimeFactsActivities
from activities.sandbox import SandboxActivities

__all__ = ["NodeServices", "activities"]


def activities(services: NodeServices) -> list[Callable[..., Any]]:
    """List the activities of this node, bound to its services."""
    directories, sandbox, images, containers = (
        DirectoryActivities(services),
        SandboxActivities(services),
        ImageActivities(services),
        ContainerActivities(services),
    )
    return [
        directories.make_pod_directories,
        directories.remove_pod_directories,
        PredecessorActivities(services).await_predecessor,
        sandbox.run_pod_sandbox,
        sandbox.stop_pod_sandbox,
        sandbox.remove_pod_sandbox,
        images.read_images,
        images.pull_image,
        containers.start_container,
        HookActivities(services).run_hook,
        containers.stop_container,
        containers.shorten_stop,
        containers.remove_container,
        ProbeActivities(services).probe_container,
        RuntimeFactsActivities(services).read_pod_runtime,
    ]
