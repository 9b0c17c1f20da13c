"""What pods use, as evictions see it: the part of /stats/summary that ranks them. Pure."""

from proto.temporal.eviction.readings import ContainerUse, FileUse, PodUse
from worker.stats.cgroups.pod_readings import ContainerReading, NodeReading, PodReading
from worker.stats.disks.log_use import FileUsage
from worker.stats.disks.node_disks import PodDisks, WritableLayer


def pod_uses(read: NodeReading, disks: PodDisks) -> dict[str, PodUse]:
    """Return what each pod uses, by uid; a pod without a cgroup is absent."""
    return {pod.sandbox.pod_uid: _pod(pod, disks) for pod in read.pods}


def _pod(pod: PodReading, disks: PodDisks) -> PodUse:
    volumes = disks.volumes.get(pod.sandbox.pod_uid, {})
    return PodUse(
        memory=pod.usage.working_set,
        processes=sum(one.processes for one in pod.containers),
        containers=tuple(_container(one, disks) for one in pod.containers),
        volumes={volume.name: FileUse(use.used, use.inodes_used) for volume, use in volumes.items()},
    )


def _container(one: ContainerReading, disks: PodDisks) -> ContainerUse:
    return ContainerUse(
        one.owner.container,
        memory=one.usage.working_set,
        root=_layer(disks.layers.get(one.owner.id)),
        logs=_files(disks.logs.get(one.owner.id)),
    )


def _layer(found: WritableLayer | None) -> FileUse | None:
    return FileUse(found.used_bytes, found.inodes) if found else None


def _files(found: FileUsage | None) -> FileUse | None:
    return FileUse(found.used_bytes, found.files) if found else None
