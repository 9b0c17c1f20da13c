"""A pod's own limits of local storage: which one is exceeded, and in which words.

The rules are pkg/kubelet/eviction/eviction_manager.go localStorageEviction: volumes first, then the pod, then its containers.
An emptyDir in memory is not checked, because its file system is no larger than its limit; the kubelet checks it, too.
"""

from dataclasses import dataclass
from typing import Final

from proto.kubernetes.resources.storage_limits import is_more
from proto.temporal.eviction.candidates import Candidate
from proto.temporal.eviction.readings import ContainerUse, PodUse
from proto.temporal.eviction.thresholds import Disks

EMPTY_DIR: Final = "emptydirfs.limit"
POD: Final = "ephemeralpodfs.limit"
CONTAINER: Final = "ephemeralcontainerfs.limit"


@dataclass(frozen=True, slots=True)
class Exceeded:
    """A limit that a pod exceeds."""

    signal: str
    """As the metric kubelet_evictions names it."""
    message: str


def exceeded(pod: Candidate, use: PodUse, disks: Disks) -> Exceeded | None:
    """Return the first limit that a pod exceeds."""
    limits = pod.limits
    if limits is None:
        return None
    for name, limit in limits.empty_dirs.items():
        if is_more((name in use.volumes and use.volumes[name].used) or 0, limit):
            return Exceeded(EMPTY_DIR, empty_dir_message(name, limit))
    if is_more(use.local_storage or 0, limits.pod):
        return Exceeded(POD, pod_message(limits.pod))
    for container in use.containers:
        limit = limits.containers.get(container.name, "")
        if is_more(_written(container, disks), limit):
            return Exceeded(CONTAINER, container_message(container.name, limit))
    return None


def empty_dir_message(name: str, limit: str) -> str:
    """Say that a volume is too large."""
    return f'Usage of EmptyDir volume "{name}" exceeds the limit "{limit}". '


def pod_message(limit: str) -> str:
    """Say that the whole pod uses too much."""
    return f"Pod ephemeral local storage usage exceeds the total limit of containers {limit}. "


def container_message(name: str, limit: str) -> str:
    """Say that a container uses too much."""
    return f'Container {name} exceeded its local ephemeral storage limit "{limit}". '


def _written(container: ContainerUse, disks: Disks) -> int:
    """Return the size of a container's logs, and of its writable layer unless images have a device of their own."""
    logs = (container.logs and container.logs.used) or 0
    root = (container.root and container.root.used) or 0
    return logs if disks.image_fs else logs + root
