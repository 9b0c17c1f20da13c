"""Node Allocatable: which cgroups are limited, by enforceNodeAllocatable and the keys that belong to it.

`pods` limits the cgroup of all pods to the machine less the reservations, the others limit cgroups that the operator has
made, each to its own reservation. The rules and their words are the kubelet's (apis/config/validation/validation.go, cm/
node_container_manager_linux.go). `worker/host/cgroups/node_allocatable.py` carries them out.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from proto.kubernetes.resources.quantity import Quantity, parse_quantity
from worker.settings.kubelet.configuration import KubeletConfiguration

KEY: Final = "enforceNodeAllocatable"
NONE: Final = "none"
PODS: Final = "pods"
_COMPRESSIBLE: Final = "-compressible"
_PER_QOS: Final = "cgroupsPerQOS"
_RESERVED_CPUS: Final = "reservedSystemCPUs"
_SAID: Final = f"{KEY} (--enforce-node-allocatable)"
_PLAIN: Final = ("system-reserved", "kube-reserved")
"""In the kubelet's order, in which they are also carried out."""
_CGROUP_KEYS: Final[Mapping[str, tuple[str, str, str]]] = {
    "system-reserved": ("systemReservedCgroup", "--system-reserved-cgroup", "systemReserved"),
    "kube-reserved": ("kubeReservedCgroup", "--kube-reserved-cgroup", "kubeReserved"),
}
_TITLES: Final = {"system-reserved": "System Reserved", "kube-reserved": "Kube Reserved"}
_VALUES: Final = (
    PODS,
    "system-reserved",
    "system-reserved-compressible",
    "kube-reserved",
    "kube-reserved-compressible",
    NONE,
)


@dataclass(frozen=True, slots=True)
class ReservedCgroup:
    """A cgroup of the operator's that is limited to a reservation."""

    title: str
    """In the kubelet's messages: `Kube Reserved`."""
    cgroup: str
    amounts: Mapping[str, Quantity]
    """By resource; empty: nothing is reserved, which fails the start."""
    compressible: bool = False
    """Only cpu."""

    @property
    def what(self) -> str:
        """Return what fails, in the kubelet's words."""
        return f"{self.title} Compressible" if self.compressible else self.title


@dataclass(frozen=True, slots=True)
class Enforcement:
    """What is enforced."""

    pods: bool = True
    """The pods' cgroup leaves the reservations free; else it has the whole machine."""
    reserved: tuple[ReservedCgroup, ...] = ()


def enforcement(kubelet: KubeletConfiguration) -> Enforcement:
    """Read what a configuration that `enforcement_breaches` has validated enforces."""
    given = kubelet[KEY] or ()
    return Enforcement(
        pods=PODS in given,
        reserved=tuple(
            _reserved(kubelet, plain, compressible=suffix != "")
            for suffix in ("", _COMPRESSIBLE)
            for plain in _PLAIN
            if plain + suffix in given
        ),
    )


def enforcement_breaches(kubelet: KubeletConfiguration) -> Iterator[str]:
    """List unknown, duplicate and contradicting values, and those that lack another key."""
    given: list[str] = kubelet[KEY] or []
    for plain in _PLAIN:
        if plain in given and plain + _COMPRESSIBLE in given:
            yield f'both "{plain}" and "{plain}{_COMPRESSIBLE}" cannot be specified together in {_SAID}'
    for index, value in enumerate(given):
        if value in given[:index]:
            yield f'duplicated enforcements "{value}" in {_SAID}'
        elif value == NONE:
            if len(given) > 1:
                yield f'{_SAID} may not contain additional enforcements when "{NONE}" is specified'
        elif value not in _VALUES:
            *others, last = (f'"{one}"' for one in _VALUES)
            yield f'option "{value}" specified for {_SAID}. Valid options are {", ".join(others)} or {last}'
        else:
            yield from _lacking(kubelet, value)
    cgroups = [key for key, _, _ in _CGROUP_KEYS.values() if kubelet[key]]
    if kubelet[_RESERVED_CPUS] and cgroups:
        yield (
            f"can't use {_RESERVED_CPUS} (--reserved-cpus) with systemReservedCgroup (--system-reserved-cgroup) or "
            "kubeReservedCgroup (--kube-reserved-cgroup)"
        )


def _lacking(kubelet: KubeletConfiguration, value: str) -> Iterator[str]:
    """List the keys without which a value cannot be enforced."""
    plain = value.removesuffix(_COMPRESSIBLE)
    if plain in _CGROUP_KEYS:
        key, flag, _ = _CGROUP_KEYS[plain]
        if not kubelet[key]:
            yield f'{key} ({flag}) must be specified when "{plain}" or "{plain}{_COMPRESSIBLE}" included in {_SAID}'
    if not kubelet[_PER_QOS]:
        yield f'{_PER_QOS} (--cgroups-per-qos) must be set to true when "{value}" contained in {_SAID}'


def _reserved(kubelet: KubeletConfiguration, plain: str, *, compressible: bool) -> ReservedCgroup:
    key, _, amounts = _CGROUP_KEYS[plain]
    given = {name: parse_quantity(text) for name, text in (kubelet[amounts] or {}).items()}
    return ReservedCgroup(_TITLES[plain], kubelet[key], given, compressible)
