"""The outcome of one probe, and what every handler gets.

Implemented by the handlers in this folder, used by `loop`. Source: pkg/probe/probe.go and
pkg/kubelet/prober/prober.go.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from activities.clients.runtime import RuntimeClient
from proto.temporal.pod import PodJson, PodKey, ProbeKind
from proto.temporal.signals import ProbeVerdict

MAX_OUTPUT: Final = 10 * 1024
"""Bytes of a response or of a command's output that are read, as in the kubelet."""
USER_AGENT: Final = "kube-probe/1.36"
_LAST_PORT: Final = 65535


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a probe ended; its output matters only after a failure, or a success with a warning."""

    success: bool
    output: str = ""
    warning: bool = False
    """It succeeded, but the output says that something is wrong."""


TellVerdict = Callable[[str, ProbeVerdict, Callable[[], Awaitable[None]]], Awaitable[None]]
"""Tells the workflow of this id a verdict by the function, or otherwise whoever leads the pod; raises what that raises."""
ProbeListener = Callable[[PodKey, str, ProbeKind, str], None]
"""Called for each probe that did not simply succeed, with the container and a description in the kubelet's words."""


class ReadinessListener(Protocol):
    """Called with each change of a readiness, and with what a loop begins with."""

    def __call__(self, pod: PodKey, container_id: str, *, ready: bool, signalled: bool) -> None:
        """Take a readiness; `signalled`: the workflow learns of it at the same time."""


async def tell_workflow(_workflow_id: str, _verdict: ProbeVerdict, tell: Callable[[], Awaitable[None]]) -> None:
    """Tell the workflow."""
    await tell()


def ignore_readiness(pod: PodKey, container_id: str, *, ready: bool, signalled: bool) -> None:
    """Ignore it."""


def ignore_outcome(_pod: PodKey, _container: str, _kind: ProbeKind, _said: str) -> None:
    """Ignore all outcomes."""


class ProbeNotRun(Exception):
    """The probe could not run, so nothing is known: the kubelet ignores such a result."""


class Handler(Protocol):
    """One kind of probe."""

    async def ask(self) -> Outcome:
        """Probe once, within the probe's timeout; raises NoOutcome."""

    async def close(self) -> None:
        """Release what is held between two probes."""


@dataclass(frozen=True, slots=True)
class Target:
    """The container that a handler probes."""

    container: PodJson
    """Its name, ports and environment, from the pod's spec."""
    container_id: str
    pod_ip: str
    runtime: RuntimeClient


def port_of(target: Target, port: Any) -> int:
    """Find a port by number or by the container's name for it; raises NoOutcome."""
    number = port
    if isinstance(port, str):
        named = [one["containerPort"] for one in target.container.get("ports") or () if one.get("name") == port]
        number = named[0] if named else int(port) if port.isdecimal() else None
    if number is None:
        raise ProbeNotRun(f"port {port} not found")
    if not 0 < number <= _LAST_PORT:
        raise ProbeNotRun(f"invalid port number: {number}")
    return int(number)


def address(host: str, port: int) -> str:
    """Join host and port, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
