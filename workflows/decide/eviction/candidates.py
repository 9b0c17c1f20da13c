"""A pod as evictions and preemptions see it.

Made from the allocated spec of a pod of which something runs. Who is critical is pkg/kubelet/types/pod_update.go
IsCriticalPod: static and mirror pods, and those with a priority of the system. On a node without a cluster every pod is
static; there only those with a priority of the system are critical, or no pod could be evicted. An evicted static pod
has failed, and comes back when its manifest changes.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from proto.kubernetes.priority import SYSTEM_CRITICAL_PRIORITY, is_critical
from proto.kubernetes.resources.overhead import pod_overhead
from proto.kubernetes.resources.pod_totals import ResourceList, container_requests, is_pod_level, pod_level
from proto.kubernetes.resources.qos import all_containers, qos_class
from proto.kubernetes.resources.quantity import canonical_quantity
from proto.kubernetes.resources.storage_limits import StorageLimits, storage_limits
from proto.kubernetes.resources.summed_limits import summed_limit
from proto.kubernetes.source_annotations import MIRROR_ANNOTATION, SOURCE_ANNOTATION
from proto.temporal.eviction.candidates import Candidate, ContainerRequests
from workflows.decide.eviction.signals import MEMORY, STORAGE

_API: Final = "api"
_MARKS: Final = (SOURCE_ANNOTATION, MIRROR_ANNOTATION)
_CONTAINER_LISTS: Final = ("containers", "initContainers", "ephemeralContainers")
_OF_CONTAINER: Final = ("name", "resources", "restartPolicy")
_USES: Final = ("volumeMounts", "volumeDevices")
_OF_SPEC: Final = ("priority", "priorityClassName", "terminationGracePeriodSeconds", "resources", "overhead")
_VOLUMES_WHOLE: Final = ("name", "emptyDir", "persistentVolumeClaim")
"""Of the other kinds of volumes only the kind counts."""


def candidate(pod: Mapping[str, Any], *, alone: bool = False) -> Candidate:
    """Return what decides about a pod; `alone` on a node without a cluster."""
    metadata, spec = pod["metadata"], pod["spec"]
    level = (spec.get("resources") or {}).get("requests") or {}
    return Candidate(
        uid=metadata.get("uid") or "",
        namespace=metadata.get("namespace") or "",
        name=metadata["name"],
        critical=is_critical(pod) if alone else is_critical_pod(pod),
        priority=spec.get("priority"),
        qos=qos_class(pod),
        grace_seconds=spec.get("terminationGracePeriodSeconds"),
        requests=requests(pod),
        containers=tuple(ContainerRequests(one["name"], _canonical(one)) for one in all_containers(pod)),
        pod_level_memory=canonical_quantity(level[MEMORY]) if MEMORY in level else "",
        local_volumes=tuple(local_volumes(spec)),
        limits=_limits(pod),
    )


def decisive_part(pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a pod that its candidate, and which volumes it uses, are read from: nothing of what it runs with."""
    metadata, spec = pod["metadata"], pod["spec"]
    kept = {key: metadata[key] for key in ("uid", "namespace", "name") if key in metadata}
    marks = {key: one for key, one in (metadata.get("annotations") or {}).items() if key in _MARKS}
    lists = {key: [_container_part(one) for one in spec[key]] for key in _CONTAINER_LISTS if spec.get(key)}
    volumes = [
        {key: one if key in _VOLUMES_WHOLE else {} for key, one in volume.items()}
        for volume in spec.get("volumes") or ()
    ]
    return {"metadata": {**kept, "annotations": marks}, "spec": {**_part(spec, _OF_SPEC), **lists, "volumes": volumes}}


def is_critical_pod(pod: Mapping[str, Any]) -> bool:
    """Report whether a pod of a node in a cluster is critical (IsCriticalPod)."""
    annotations = pod["metadata"].get("annotations") or {}
    is_static = annotations.get(SOURCE_ANNOTATION, _API) != _API
    is_mirror = MIRROR_ANNOTATION in annotations
    return is_static or is_mirror or (pod["spec"].get("priority") or 0) >= SYSTEM_CRITICAL_PRIORITY


def requests(pod: Mapping[str, Any]) -> ResourceList:
    """Return a pod's requests (pkg/api/v1/resource/helpers.go GetResourceRequestQuantity).

    With requests or limits of the pod's own, its containers' do not count, not even those that a pod cannot have itself.
    """
    own = (pod["spec"].get("resources")) or {}
    has_own = any(is_pod_level(name) for kind in ("requests", "limits") for name in own.get(kind) or {})
    found = pod_level(pod, "requests") if has_own else container_requests(pod)
    for name, amount in pod_overhead(pod).items():
        if found.get(name):
            found[name] += amount
    return found


def local_volumes(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield the volumes whose files lie on the node's disk (localVolumeNames); a Secret's lie in memory."""
    for volume in spec.get("volumes") or ():
        empty_dir = volume.get("emptyDir")
        on_disk = empty_dir is not None and not empty_dir.get("medium")
        if on_disk or any(volume.get(kind) is not None for kind in ("hostPath", "gitRepo", "configMap")):
            yield volume["name"]


def _limits(pod: Mapping[str, Any]) -> StorageLimits | None:
    """Return the limits of local storage, that of the pod in the form that Go gives the sum."""
    found = storage_limits(pod)
    return replace(found, pod=summed_limit(pod, STORAGE)) if found and found.pod else found


def _part(whole: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    return {key: whole[key] for key in keys if key in whole}


def _container_part(container: Mapping[str, Any]) -> dict[str, Any]:
    uses = {key: [{"name": one["name"]} for one in container[key]] for key in _USES if container.get(key)}
    return {**_part(container, _OF_CONTAINER), **uses}


def _canonical(container: Mapping[str, Any]) -> dict[str, str]:
    entries = (container.get("resources") or {}).get("requests") or {}
    return {name: canonical_quantity(amount) for name, amount in entries.items()}
