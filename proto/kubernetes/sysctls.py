"""Sysctls by name: which namespace has one, which are safe, which a list of allowed ones allows.

Used by validation, admission, configuration and the runtime's requests. The rules are k8s.io/component-helpers
node/util/sysctl and pkg/kubelet/sysctl. A name may be written with slashes in place of dots.
"""

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

LONGEST: Final = 253
_SEGMENT: Final = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
NAME_PATTERN: Final = rf"^({_SEGMENT}[\./])*{_SEGMENT}$"
LIST_PATTERN: Final = rf"^({_SEGMENT}[\./])*([a-z0-9][-_a-z0-9]*)?[a-z0-9*]$"
"""The items of allowedUnsafeSysctls: a name, or a prefix with a star."""
_NAME: Final = re.compile(NAME_PATTERN, re.ASCII)
_LISTED: Final = re.compile(LIST_PATTERN, re.ASCII)
_SWAPPED: Final = str.maketrans("./", "/.")


class Namespace(StrEnum):
    """The kernel's namespaces with sysctls; the value is the name in messages."""

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
"""The sysctls that affect only the pod, each with the first kernel that has it in a namespace (0.0: any)."""


def is_name(text: str) -> bool:
    """Report whether this is a valid sysctl name."""
    return len(text) <= LONGEST and _NAME.fullmatch(text) is not None


def is_listable(text: str) -> bool:
    """Report whether this is valid in a list of allowed sysctls."""
    return len(text) <= LONGEST and _LISTED.fullmatch(text) is not None


def normalized(name: str) -> str:
    """Write a name with dots between its parts; if its first separator is a slash, both are swapped."""
    first = re.search(r"[./]", name)
    return name.translate(_SWAPPED) if first and first[0] == "/" else name


def namespace_of(name: str) -> Namespace | None:
    """Return the namespace of a sysctl, or of a listed prefix; None if none is known."""
    plain = normalized(name).partition("*")[0]
    if plain in _BY_NAME:
        return Namespace.IPC
    return next((namespace for prefix, namespace in _BY_PREFIX if plain.startswith(prefix)), None)


def kernel_of(release: str) -> tuple[int, int] | None:
    """Return the first two numbers of a kernel's release (`6.18.44-cloud`); None if they cannot be read."""
    found = re.match(r"(\d+)\.(\d+)", release)
    return (int(found[1]), int(found[2])) if found else None


def safe_sysctls(release: str) -> tuple[str, ...]:
    """List the safe sysctls of a kernel; for an unknown one, those that are safe with every kernel."""
    kernel = kernel_of(release) or (0, 0)
    return tuple(name for name, since in SAFE if kernel >= since)


def why_forbidden(name: str, allowed: Iterable[str], *, host_network: bool, host_ipc: bool) -> str:
    """Explain in the kubelet's words why a pod may not set a sysctl; empty if it may.

    `allowed` has names, and prefixes with a star. A sysctl of a namespace that the pod shares with the node is never
    allowed.
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
