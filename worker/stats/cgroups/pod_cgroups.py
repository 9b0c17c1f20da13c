"""Lists the cgroups of pods: QoS tiers, pods, containers. Walks the cgroup folders only."""

from collections.abc import Iterator
from typing import NamedTuple

from activities.machine.cgroup_names import CgroupNames
from proto.kubernetes.resources.qos import QosClass
from worker.stats.cgroups.usage import CgroupReader


class PodCgroup(NamedTuple):
    """One cgroup of the pods' tree; both fields are empty for the tiers and for the tree itself."""

    path: str
    pod_uid: str = ""
    container_id: str = ""
    """Of a container or a sandbox; empty for the pod's own cgroup."""


def pod_cgroups(reader: CgroupReader, names: CgroupNames) -> Iterator[PodCgroup]:
    """Walk the tree of kubepods, parents first; cgroups removed meanwhile are skipped."""
    for qos in QosClass:
        tier = names.tier(qos)
        yield PodCgroup(tier)
        for folder in reader.children(tier):
            if not (uid := names.pod_uid(folder, qos)):
                continue
            path = f"{tier}/{folder}"
            yield PodCgroup(path, uid)
            for one in reader.children(path):
                if container_id := names.container_id(one):
                    yield PodCgroup(f"{path}/{one}", uid, container_id)
