"""The cpu and memory of containers in a pod's spec, and how a workflow alone judges a resize.

Also used by `tempolet history`: no Kubernetes models here, which cost a process 16 MB. `granted` is for listings of earlier
releases, which asked the pod's workflow; it knows the node's allocatable, not what other pods use, and says Infeasible where
the kubelet 1.36 says Deferred. Today the node decides (`resizes.py`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from proto.kubernetes.resources.overhead import requests_and_overhead
from proto.kubernetes.resources.pod_totals import is_sidecar
from proto.kubernetes.resources.qos import all_containers, resource_list
from proto.kubernetes.resources.quantity import ZERO
from proto.temporal.pod import PodJson
from proto.temporal.resources import Allocatable

INFEASIBLE: Final = "Infeasible"


@dataclass(frozen=True, slots=True)
class Compute:
    """A container's cpu (milli-CPU) and memory (bytes); 0 is none."""

    cpu_request: int
    cpu_limit: int
    memory_request: int
    memory_limit: int


def compute(resources: Mapping[str, Any]) -> Compute:
    """Read from a container's resources what a resize can change."""
    requests, limits = (resource_list({"resources": resources}, kind) for kind in ("requests", "limits"))
    return Compute(
        requests.get("cpu", ZERO).milli,
        limits.get("cpu", ZERO).milli,
        requests.get("memory", ZERO).value,
        limits.get("memory", ZERO).value,
    )


def resources_by_name(pod: PodJson) -> dict[str, PodJson]:
    """Return each container's resources in a pod's spec."""
    return {str(one["name"]): one.get("resources") or {} for one in all_containers(pod)}


def resizable(pod: PodJson) -> Iterator[Mapping[str, Any]]:
    """Yield the containers that can be resized: sidecars and the regular ones, for other init containers end."""
    for one in pod["spec"].get("initContainers") or ():
        if is_sidecar(one):
            yield one
    yield from pod["spec"]["containers"]


def granted(now: PodJson, asked: PodJson, allocatable: Allocatable | None) -> tuple[PodJson, str]:
    """Return the pod with the resources it is granted, and why not all are; the containers are the same."""
    before, after = resources_by_name(now), resources_by_name(asked)
    if all(compute(before[name]) == compute(after[name]) for name in after):
        return asked, ""
    why = infeasible(now, asked, allocatable)
    return (with_resources(asked, before), why) if why else (asked, "")


def infeasible(now: PodJson, asked: PodJson, allocatable: Allocatable | None) -> str:
    """Explain why this node can never grant the resources; empty if it can, or if the pod asks for no more than it has."""
    if allocatable is None:
        return ""
    before, after = (requests_and_overhead(pod) for pod in (now, asked))
    cpu, memory = after.get("cpu", ZERO), after.get("memory", ZERO)
    for name, wanted, has in (
        ("cpu", cpu.milli, allocatable.cpu_milli),
        ("memory", memory.value, allocatable.memory_bytes),
    ):
        if wanted > has and after.get(name, ZERO) > before.get(name, ZERO):
            return f"Node didn't have enough capacity: {name}, requested: {wanted}, capacity: {has}"
    return ""


def with_resources(pod: PodJson, granted: Mapping[str, PodJson]) -> PodJson:
    """Return the pod with the resources granted to its containers."""
    spec = dict(pod["spec"])
    for kind in ("initContainers", "containers"):
        if kind in spec:
            spec[kind] = [{**one, "resources": granted[one["name"]]} for one in spec[kind]]
    return {**pod, "spec": spec}


def format_resources(resources: Mapping[str, Any]) -> str:
    """Write requests and limits: `cpu 100m up to 200m, memory 64Mi`."""
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    said = []
    for name in dict.fromkeys((*requests, *limits)):
        asked, most = requests.get(name), limits.get(name)
        up_to = f" up to {most}" if most is not None and most != asked else ""
        said.append(f"{name}{'' if asked is None else f' {asked}'}{up_to}")
    return ", ".join(said) or "none"
