"""Builds /stats/summary (server/stats/summary.go, stats/cri_stats_provider.go). Pure."""

from collections.abc import Mapping

from worker.stats.cgroups.pod_readings import ContainerReading, NodeReading, PodReading
from worker.stats.cgroups.system_containers import SystemReading
from worker.stats.cgroups.usage import CgroupUsage
from worker.stats.disks.log_use import FileUsage
from worker.stats.disks.node_disks import PodDisks, UsedDisk
from worker.stats.disks.volumes import Volume, VolumeUsage
from worker.stats.summaries import values
from worker.stats.summaries.machine import Machine
from worker.stats.summaries.values import Json


def brief_summary(machine: Machine, read: NodeReading, rates: Mapping[str, int]) -> Json:
    """Build the summary with cpu, memory and swap only (`?only_cpu_and_memory=true`)."""
    pods = [_brief_pod(pod, rates) for pod in read.pods]
    return {"node": _node(machine, read, rates), "pods": pods}


def summary(machine: Machine, read: NodeReading, rates: Mapping[str, int], disks: PodDisks) -> Json:
    """Build the complete summary."""
    node = _node(machine, read, rates)
    at = read.node.at if read.node else machine.disk.at
    node |= {"network": values.network(machine.devices, at)}
    used = machine.disk.inodes - machine.disk.inodes_free
    node["fs"] = values.disk(machine.disk, machine.disk.used, used)
    if machine.images.disk:
        node["runtime"] = {"imageFs": _runtime_disk(machine.images), "containerFs": _runtime_disk(machine.containers)}
    rlimit = {"time": values.when(at), "maxpid": machine.most_processes, "curproc": machine.processes}
    return {"node": node | {"rlimit": rlimit}, "pods": [_pod(machine, pod, rates, disks) for pod in read.pods]}


def _runtime_disk(used: UsedDisk) -> Json | None:
    return values.disk(used.disk, used.used_bytes, used.inodes) if used.disk else None


def _node(machine: Machine, read: NodeReading, rates: Mapping[str, int]) -> Json:
    content: Json = {"nodeName": machine.name}
    content["systemContainers"] = [_system(machine, one, rates.get(one.name)) for one in read.system]
    content["startTime"] = values.when(machine.boot_time)
    if read.node is not None:
        content |= _used(read.node, rates.get("/"), machine.memory)
        content["swap"] = values.swap(read.node, machine.swap)
    return content


def _system(machine: Machine, one: SystemReading, nanocores: int | None) -> Json:
    used = _used(one.usage, nanocores, machine.memory if one.is_machine else one.usage.memory_limit)
    if one.is_machine:
        used["swap"] = values.swap(one.usage, machine.swap)
    return {"name": one.name, "startTime": values.when(one.since), **used}


def _used(usage: CgroupUsage, nanocores: int | None, limit: int | None) -> Json:
    return {
        "cpu": values.cpu(usage, nanocores),
        "memory": values.memory(usage, limit),
        "swap": values.swap(usage, usage.swap_limit),
        **values.transfers(usage),
    }


def _brief_container(one: ContainerReading, rates: Mapping[str, int]) -> Json:
    used = _used(one.usage, rates.get(one.path), one.usage.memory_limit)
    return {"name": one.owner.container, "startTime": values.when(one.owner.created), **used}


def _brief_pod(pod: PodReading, rates: Mapping[str, int]) -> Json:
    return {
        "podRef": {"name": pod.sandbox.pod, "namespace": pod.sandbox.namespace, "uid": pod.sandbox.pod_uid},
        "startTime": values.when(pod.sandbox.created),
        "containers": [_brief_container(one, rates) for one in pod.containers],
        **_used(pod.usage, rates.get(pod.path), pod.usage.memory_limit),
    }


def _pod(machine: Machine, pod: PodReading, rates: Mapping[str, int], disks: PodDisks) -> Json:
    content = _brief_pod(pod, rates)
    content["containers"] = [_container(machine, one, rates, disks) for one in pod.containers]
    if pod.devices:
        content["network"] = values.network(pod.devices, pod.usage.at)
    volumes = disks.volumes.get(pod.sandbox.pod_uid, {})
    if volumes:
        content["volume"] = [_volume(volume, use) for volume, use in volumes.items()]
    content["ephemeral-storage"] = _own_storage(machine, pod, disks, volumes)
    content["process_stats"] = {"process_count": sum(one.processes for one in pod.containers)}
    return content


def _container(machine: Machine, one: ContainerReading, rates: Mapping[str, int], disks: PodDisks) -> Json:
    content = _brief_container(one, rates)
    layer, logs = disks.layers.get(one.owner.id), disks.logs.get(one.owner.id, FileUsage())
    if layer and layer.disk:
        content["rootfs"] = values.disk(layer.disk, layer.used_bytes, layer.inodes) | {"time": values.when(layer.at)}
    elif layer:
        content["rootfs"] = {"time": values.when(layer.at), "usedBytes": layer.used_bytes, "inodesUsed": layer.inodes}
    content["logs"] = values.disk(machine.disk, logs.used_bytes, logs.files)
    return content


def _volume(volume: Volume, use: VolumeUsage) -> Json:
    content: Json = {
        "time": values.when(use.at),
        "availableBytes": use.available,
        "capacityBytes": use.capacity,
        "usedBytes": use.used,
        "inodesFree": use.inodes_free,
        "inodes": use.inodes,
        "inodesUsed": use.inodes_used,
        "name": volume.name,
    }
    if use.abnormal is not None:
        content["volumeHealthStats"] = {"abnormal": use.abnormal}
    return content | ({"pvcRef": {"name": volume.claim, "namespace": volume.namespace}} if volume.claim else {})


def _own_storage(machine: Machine, pod: PodReading, disks: PodDisks, volumes: Mapping[Volume, VolumeUsage]) -> Json:
    """Add up the pod's usage of the node's disk: layers, logs, hosts file, local volumes (calcEphemeralStorage)."""
    ids = [one.owner.id for one in pod.containers]
    hosts = disks.hosts.get(pod.sandbox.pod_uid, FileUsage())
    layers = [disks.layers[one] for one in ids if one in disks.layers]
    logs = [disks.logs[one] for one in ids if one in disks.logs]
    own = [use for volume, use in volumes.items() if volume.is_local]
    used = sum(one.used_bytes for one in layers) + sum(one.used_bytes for one in (*logs, hosts))
    used += sum(use.used for use in own)
    inodes = sum(one.inodes for one in layers) + sum(one.files for one in (*logs, hosts))
    return values.disk(machine.disk, used, inodes + sum(use.inodes_used for use in own))
