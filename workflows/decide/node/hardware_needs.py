"""Which new pods are given exclusive hardware, so that the node's workflow has to be asked for them.

Asked by the poller for each new pod. All others cost no message: what is asked here is read from the pod alone.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from proto.dra.pod_claims import without_claimed
from proto.kubernetes.resources.qos import QosClass, qos_class, resource_list
from proto.temporal.pod import PodJson
from workflows.decide.cpus.requests import pod_request

_CONTAINER: Final = ("name", "resources", "restartPolicy")
_KINDS: Final = ("initContainers", "containers")


def never(_: str) -> bool:
    """Report that no resource belongs to a device plugin."""
    return False


@dataclass(frozen=True, slots=True)
class HardwarePolicies:
    """What this node gives to one container alone."""

    cpus: bool = False
    """The policy `static` of the CPU manager."""
    memory: bool = False
    """The policy `Static` of the memory manager."""
    is_device: Callable[[str], bool] = never
    """Reports whether a resource may belong to a device plugin."""


def needs_hardware(pod: PodJson, policies: HardwarePolicies) -> bool:
    """Report whether a pod is given something that no other pod may have."""
    pod = without_claimed(pod)
    if policies.memory and qos_class(pod) is QosClass.GUARANTEED:
        return True
    if policies.cpus and any(one.cpus for one in pod_request(pod).containers):
        return True
    return any(policies.is_device(name) for name in _resources(pod))


def hardware_slice(pod: PodJson) -> PodJson:
    """Return the part of a pod that hardware is chosen by."""
    spec = without_claimed(pod)["spec"]
    kept = {kind: [_cut(one) for one in spec[kind]] for kind in _KINDS if spec.get(kind)}
    if spec.get("resources"):
        kept["resources"] = spec["resources"]
    return {"metadata": {name: pod["metadata"][name] for name in ("namespace", "name", "uid")}, "spec": kept}


def _cut(container: Mapping[str, Any]) -> dict[str, Any]:
    return {name: container[name] for name in _CONTAINER if container.get(name)}


def _resources(pod: PodJson) -> Iterator[str]:
    for kind in _KINDS:
        for container in pod["spec"].get(kind) or ():
            yield from resource_list(container, "limits")
