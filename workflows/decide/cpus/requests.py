"""How many CPUs of its own each container of a pod asks for.

The rules are guaranteedCPUs and podGuaranteedCPUs in pkg/kubelet/cm/cpumanager/policy_static.go, with the gate
PodLevelResourceManagers off: a pod with resources of its own gets none.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from proto.kubernetes.resources.pod_totals import is_sidecar, pod_level
from proto.kubernetes.resources.qos import QosClass, qos_class, resource_list
from proto.kubernetes.resources.quantity import ZERO


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """What one container asks for."""

    name: str
    cpus: int
    """Whole CPUs of its own; 0: it uses the shared ones."""
    ends: bool = False
    """An init container that ends before the app containers start, so that these can have its CPUs."""
    is_sidecar: bool = False


@dataclass(frozen=True, slots=True)
class PodRequest:
    """What a pod asks for; init containers come first."""

    uid: str
    containers: tuple[ContainerRequest, ...]

    def named(self, name: str) -> ContainerRequest:
        """Return a container's part."""
        return next(one for one in self.containers if one.name == name)

    @property
    def cpus(self) -> int:
        """The most that the pod has at a time."""
        sidecars = most = apps = 0
        for one in self.containers:
            if one.is_sidecar:
                sidecars += one.cpus
            elif one.ends:
                most = max(most, sidecars + one.cpus)
            else:
                apps += one.cpus
        return max(most, apps + sidecars)


def pod_request(pod: Mapping[str, Any]) -> PodRequest:
    """Read a pod's manifest."""
    spec = pod.get("spec") or {}
    has_own = pod_level(pod, "requests") or pod_level(pod, "limits")
    may = qos_class(pod) is QosClass.GUARANTEED and not has_own
    inits = [_request(one, may=may, is_init=True) for one in spec.get("initContainers") or ()]
    apps = [_request(one, may=may, is_init=False) for one in spec.get("containers") or ()]
    return PodRequest(str(pod["metadata"]["uid"]), (*inits, *apps))


def _request(container: Mapping[str, Any], *, may: bool, is_init: bool) -> ContainerRequest:
    sidecar = is_init and is_sidecar(container)
    amount = resource_list(container, "requests").get("cpu", ZERO)
    is_whole = amount.value * 1000 == amount.milli
    return ContainerRequest(
        container["name"], amount.value if may and is_whole else 0, is_init and not sidecar, sidecar
    )
