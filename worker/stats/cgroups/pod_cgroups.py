"""Lists the cgroups of pods: QoS tiers, pods, containers. Walks the cgroup folders only."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from worker.stats.cgroups.usage import CgroupReader

_TIERS: Final = ("burstable", "besteffort")
_POD: Final = "pod"


class PodCgroup(NamedTuple):
    """One cgroup of the pods' tree; both fields are empty for the tiers and for the tree itself."""

    path: str
    pod_uid: str = ""
    container_id: str = ""
    """Of a container or a sandbox; empty for the pod's own cgroup."""


def pod_cgroups(reader: CgroupReader, root: str) -> Iterator[PodCgroup]:
    """Walk the tree below `root` (`/kubepods`), parents first; cgroups removed meanwhile are skipped."""
    yield PodCgroup(root)
    for tier in (root, *(f"{root}/{name}" for name in _TIERS)):
        if tier != root:
            yield PodCgroup(tier)
        for name in reader.children(tier):
            if not name.startswith(_POD):
                continue
            uid, path = name.removeprefix(_POD), f"{tier}/{name}"
            yield PodCgroup(path, uid)
            for container_id in reader.children(path):
                yield PodCgroup(f"{path}/{container_id}", uid, container_id)
