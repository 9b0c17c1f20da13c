"""What is known of sysctls by their names: which namespace holds one, which are safe, what a list of allowed ones allows.

Asked where a pod is judged and admitted, where the node's configuration is judged, and where the runtime is told. The rules
are k8s.io/component-helpers node/util/sysctl and pkg/kubelet/sysctl; a name may be written with slashes for dots.
"""

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

LONGEST: Final = 253
_SEGMENT: Final = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
NAME_PATTERN: Final = rf"^({_SEGMENT}[\./])*{_SEGMENT}$"
LIST_PATTERN: Final = rf"^({_SEGMENT}[\./])*([a-z0-9][-_a-z0-9]*)?[a-z0-9*]$"
"""What the list of allowed ones may hold: a name, or the beginning of names and a star."""
_NAME: Final = re.compile(NAME_PATTERN, re.ASCII)
_LISTED: Final = re.compile(LIST_PATTERN, re.ASCII)
_SWAPPED: Final = str.maketrans("./", "/.")


class Namespace(StrEnum):
    """The kernel's namespaces that hold sysctls; the value is how a message names one."""

    IPC = "IPC"
    NET = "Net"


_BY_NAME: Final = frozenset(
    {
        *("kernel.sem", "kernel.shm", "kernel.shmall", "kernel.shmmax", "kernel.shmmni", "kernel.shm_rmid_forced"),
        *("kernel.msg", "kernel.msgmax", "kernel.msgmnb", "kernel.msgmni"),
    }
)
_BY_PREFIX: Final = (("net.", Namespace.NET), ("fs.mqueue.", Namespace.IPC))

SAFE: Final[tuple[tuple[str, tuple[int, int]], ...]] = (
    ("kernel.shm_rmid_forced", (0, 0)),
    ("net.ipv4.ip_local_port_range", (0, 0)),
    ("net.ipv4.tcp_syncookies", (0, 0)),
    ("net.ipv4.ping_group_range", (0, 0)),
    ("net.ipv4.ip_unprivileged_port_start", (0, 0)),
    ("net.ipv4.ip_local_reserved_ports", (3, 16)),
    ("net.ipv4.tcp_keepalive_time", (4, 5)),
    ("net.ipv4.tcp_fin_timeout", (4, 6)),
    ("net.ipv4.tcp_keepalive_intvl", (4, 5)),
    ("net.ipv4.tcp_keepalive_probes", (4, 5)),
    ("net.ipv4.tcp_rmem", (4, 15)),
    ("net.ipv4.tcp_wmem", (4, 15)),
)
"""The sysctls that touch nobody but the pod, each with the first kernel that has it in a namespace (0.0: any)."""


def is_name(text: str) -> bool:
    """Say whether this can be the name of a sysctl."""
    return len(text) <= LONGEST and _NAME.fullmatch(text) is not None


def is_listable(text: str) -> bool:
    """Say whether this can stand in a list of allowed sysctls."""
    return len(text) <= LONGEST and _LISTED.fullmatch(text) is not None


def normalized(name: str) -> str:
    """Write a name with dots between its parts; one whose first separator is a slash has the two swapped."""
    first = re.search(r"[./]", name)
    return name.translate(_SWAPPED) if first and first[0] == "/" else name


def namespace_of(name: str) -> Namespace | None:
    """Say which namespace holds a sysctl, or all that a listed prefix stands for; None: none that is known."""
    plain = normalized(name).partition("*")[0]
    if plain in _BY_NAME:
        return Namespace.IPC
    return next((namespace for prefix, namespace in _BY_PREFIX if plain.startswith(prefix)), None)


def kernel_of(release: str) -> tuple[int, int] | None:
    """Read a kernel's release (`6.18.44-cloud`) as its first two numbers; None where they cannot be read."""
    found = re.match(r"(\d+)\.(\d+)", release)
    return (int(found[1]), int(found[2])) if found else None


def safe_sysctls(release: str) -> tuple[str, ...]:
    """List what is safe under this kernel; of a kernel that is not known, only what is safe under each."""
    kernel = kernel_of(release) or (0, 0)
    return tuple(name for name, since in SAFE if kernel >= since)


def why_forbidden(name: str, allowed: Iterable[str], *, host_network: bool, host_ipc: bool) -> str:
    """Say why a pod may not set a sysctl, in the kubelet's words; empty when it may.

    `allowed` holds names and prefixes that end in a star. What lies in a namespace of the node's is never the pod's to set.
    """
    plain = normalized(name)
    match = next((one for one in map(normalized, allowed) if _matches(plain, one)), None)
    if match is None:
        return f'"{plain}" not allowlisted'
    namespace = namespace_of(match)
    shared = (namespace is Namespace.IPC and host_ipc) or (namespace is Namespace.NET and host_network)
    return f'"{plain}" not allowed with host {namespace} enabled' if shared else ""


def _matches(plain: str, listed: str) -> bool:
    prefix, star, _ = listed.partition("*")
    return plain.startswith(prefix) if star else plain == listed
