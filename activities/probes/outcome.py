"""What one probe of a container comes back with, and what every handler is given.

Implemented by each handler of this folder, asked by `loop`. Source: pkg/probe/probe.go and pkg/kubelet/prober/prober.go.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from activities.clients.runtime import RuntimeClient
from proto.temporal.pod import PodJson, PodKey, ProbeKind

MAX_OUTPUT: Final = 10 * 1024
"""Bytes of a response or of a command's output that are read; the kubelet's own."""
USER_AGENT: Final = "kube-probe/1.36"
_LAST_PORT: Final = 65535


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a probe ended; what it said counts only when it failed, or succeeded with a warning."""

    success: bool
    output: str = ""
    warning: bool = False
    """It succeeded, and its output says what is wrong all the same."""


ProbeListener = Callable[[PodKey, str, ProbeKind, str], None]
"""Told of each probe that did not simply succeed: of which container, and how it ended, in the kubelet's words."""


def nobody(_pod: PodKey, _container: str, _kind: ProbeKind, _said: str) -> None:
    """Listen to nothing."""


class NoOutcome(Exception):
    """The container could not be asked, so nothing is known: the kubelet throws such a result away."""


class Handler(Protocol):
    """One way to ask a container."""

    async def ask(self) -> Outcome:
        """Ask once, within the probe's timeout; raises NoOutcome."""

    async def close(self) -> None:
        """Give back what is held between two questions."""


@dataclass(frozen=True, slots=True)
class Target:
    """Whom a handler asks."""

    container: PodJson
    """Its name, ports and environment, as the pod says."""
    container_id: str
    pod_ip: str
    runtime: RuntimeClient


def port_of(target: Target, port: Any) -> int:
    """Find a port by number or by the name that the container gives it; raises NoOutcome."""
    number = port
    if isinstance(port, str):
        named = [one["containerPort"] for one in target.container.get("ports") or () if one.get("name") == port]
        number = named[0] if named else int(port) if port.isdecimal() else None
    if number is None:
        raise NoOutcome(f"port {port} not found")
    if not 0 < number <= _LAST_PORT:
        raise NoOutcome(f"invalid port number: {number}")
    return int(number)


def address(host: str, port: int) -> str:
    """Write host and port as one; an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
