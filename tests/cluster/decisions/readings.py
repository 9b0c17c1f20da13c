"""What /stats/summary says, as the core takes it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from proto.temporal.eviction.readings import (
    ContainerUse,
    FileSystemReading,
    FileUse,
    MemoryReading,
    NodeReading,
    PodUse,
    TaskReading,
)

Json = Mapping[str, Any]


def node_reading(node: Json) -> NodeReading:
    """Read the part about the node."""
    pods = next((one for one in node["systemContainers"] if one["name"] == "pods"), None)
    tasks = node.get("rlimit")
    return NodeReading(
        memory=memory(node.get("memory")),
        pods_memory=memory(pods and pods["memory"]),
        node_fs=file_system(node["fs"]),
        image_fs=file_system(node["runtime"]["imageFs"]),
        container_fs=file_system(node["runtime"]["containerFs"]),
        tasks=TaskReading(tasks["curproc"], tasks["maxpid"], time(tasks)) if tasks else None,
    )


def memory(read: Json | None) -> MemoryReading | None:
    """Read memory; half a measurement is none."""
    if not read or "availableBytes" not in read:
        return None
    return MemoryReading(read["availableBytes"], read["workingSetBytes"], time(read))


def file_system(read: Json) -> FileSystemReading:
    """Read a file system."""
    return FileSystemReading(
        read.get("availableBytes"), read.get("capacityBytes"), read.get("inodesFree"), read.get("inodes"), time(read)
    )


def time(read: Json) -> datetime | None:
    """Read the time of a measurement."""
    return datetime.fromisoformat(read["time"]) if read["time"] else None


def pod_uses(pods: list[Json]) -> dict[str, PodUse]:
    """Read the parts about pods, by uid."""
    return {one["podRef"]["uid"]: pod_use(one) for one in pods}


def pod_use(read: Json) -> PodUse:
    """Read the part about a pod."""
    return PodUse(
        memory=None if "memory" not in read else read["memory"].get("workingSetBytes", 0),
        processes=read.get("process_stats", {}).get("process_count"),
        local_storage=read.get("ephemeral-storage", {}).get("usedBytes"),
        containers=tuple(container_use(one) for one in read["containers"]),
        volumes={one["name"]: _files(one) for one in read["volume"]},
    )


def container_use(read: Json) -> ContainerUse:
    """Read the part about a container."""
    root, logs = (_files(read[kind]) if kind in read else None for kind in ("rootfs", "logs"))
    return ContainerUse(read["name"], read.get("memory", {}).get("workingSetBytes"), root, logs)


def _files(read: Json) -> FileUse:
    return FileUse(read.get("usedBytes"), read.get("inodesUsed"))
