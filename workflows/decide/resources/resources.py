"""What containers have of cpu and memory by a pod's spec, and whether this node has what an edit asks for.

Asked by `allocation`, by `updates` and by the story of `tempolet history`: no Kubernetes models here, which cost a process 16 MB.
Only what the node has at all is asked about, not what its other pods hold: nothing asks that at a pod's start either, so no
resize is ever Deferred. The kubelet 1.36 says Deferred of one that can never fit (pkg/kubelet/lifecycle/predicate.go); the
API's word for that is Infeasible.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from proto.kubernetes.resources.overhead import requests_and_overhead
from proto.kubernetes.resources.pod_totals import pod_requests
from proto.kubernetes.resources.qos import all_containers, resource_list
from proto.kubernetes.resources.quantity import ZERO
from proto.temporal.pod import PodJson
from proto.temporal.resources import Allocatable

INFEASIBLE: Final = "Infeasible"


@dataclass(frozen=True, slots=True)
class Compute:
    """What a container has of cpu (thousandths) and memory (bytes); 0 is none."""

    cpu_request: int
    cpu_limit: int
    memory_request: int
    memory_limit: int


def compute(resources: Mapping[str, Any]) -> Compute:
    """Read what a resize can change out of a container's resources."""
    requests, limits = (resource_list({"resources": resources}, kind) for kind in ("requests", "limits"))
    return Compute(
        requests.get("cpu", ZERO).milli,
        limits.get("cpu", ZERO).milli,
        requests.get("memory", ZERO).value,
        limits.get("memory", ZERO).value,
    )


def resources_by_name(pod: PodJson) -> dict[str, PodJson]:
    """Say what each container of a pod has by its spec."""
    return {str(one["name"]): one.get("resources") or {} for one in all_containers(pod)}


def granted(now: PodJson, asked: PodJson, allocatable: Allocatable | None) -> tuple[PodJson, str]:
    """Write a pod with what it is granted of what its source asks for now, and say why that is not all; containers are the same."""
    before, after = resources_by_name(now), resources_by_name(asked)
    if all(compute(before[name]) == compute(after[name]) for name in after):
        return asked, ""
    why = infeasible(now, asked, allocatable)
    return (with_resources(asked, before), why) if why else (asked, "")


def infeasible(now: PodJson, asked: PodJson, allocatable: Allocatable | None) -> str:
    """Say why a pod can never have what it asks for here; empty when it can, or asks for no more than it has."""
    if allocatable is None:
        return ""
    before, after = (requests_and_overhead(pod, pod_requests(pod)) for pod in (now, asked))
    cpu, memory = after.get("cpu", ZERO), after.get("memory", ZERO)
    for name, wanted, has in (
        ("cpu", cpu.milli, allocatable.cpu_milli),
        ("memory", memory.value, allocatable.memory_bytes),
    ):
        if wanted > has and after.get(name, ZERO) > before.get(name, ZERO):
            return f"Node didn't have enough capacity: {name}, requested: {wanted}, capacity: {has}"
    return ""


def with_resources(pod: PodJson, granted: Mapping[str, PodJson]) -> PodJson:
    """Write a pod with what its containers are granted."""
    spec = dict(pod["spec"])
    for kind in ("initContainers", "containers"):
        if kind in spec:
            spec[kind] = [{**one, "resources": granted[one["name"]]} for one in spec[kind]]
    return {**pod, "spec": spec}


def format_resources(resources: Mapping[str, Any]) -> str:
    """Say requests and limits: `cpu 100m up to 200m, memory 64Mi`."""
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    said = []
    for name in dict.fromkeys((*requests, *limits)):
        asked, most = requests.get(name), limits.get(name)
        up_to = f" up to {most}" if most is not None and most != asked else ""
        said.append(f"{name}{'' if asked is None else f' {asked}'}{up_to}")
    return ", ".join(said) or "none"
