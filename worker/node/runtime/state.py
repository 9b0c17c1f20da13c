"""The state of the container runtime, and what is wrong with it, in the kubelet's words.

Used by the node's status. The rules are those of pkg/kubelet/runtime.go and updateRuntimeUp: a runtime that has not answered
for 30 s is down; one that answers may report that it or its network is not ready.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from proto.cri.v1 import api_pb2 as cri

DOWN_AFTER: Final = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Handler:
    """A runtime handler and its features."""

    name: str
    recursive_read_only_mounts: bool = False
    user_namespaces: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeState:
    """What the runtime last reported."""

    last_ready: datetime | None = None
    """When it last answered that it is ready, by the monotonic clock; regardless of its network."""
    runtime_trouble: str = ""
    network_trouble: str = "network state unknown"
    handlers: tuple[Handler, ...] = ()
    supplemental_groups: bool | None = None
    """Whether supplementalGroupsPolicy is implemented; None: an old runtime does not report it."""
    version: str = ""
    """name://version, or "" if not known."""
    images: tuple[Mapping[str, Any], ...] | None = None
    """In the form of the node's status; None if not known."""

    def troubles(self, now: datetime) -> tuple[str, ...]:
        """Return what keeps this node from being Ready."""
        found = []
        if self.last_ready is None:
            found.append("container runtime status check may not have completed yet")
        elif now - self.last_ready >= DOWN_AFTER:
            found.append("container runtime is down")
        return (*found, *filter(None, (self.runtime_trouble, self.network_trouble)))


def with_status(before: RuntimeState, answer: cri.StatusResponse, now: datetime) -> RuntimeState:
    """Return the state after the answer to a Status call."""
    conditions = {one.type: one for one in answer.status.conditions}
    network, runtime = conditions.get("NetworkReady"), conditions.get("RuntimeReady")
    network_trouble = (
        "" if network and network.status else f"container runtime network not ready: {_described(network)}"
    )
    if runtime is None or not runtime.status:
        trouble = f"container runtime not ready: {_described(runtime)}"
        return replace(before, network_trouble=network_trouble, runtime_trouble=trouble)
    features = answer.features if answer.HasField("features") else None
    return replace(
        before,
        last_ready=now,
        network_trouble=network_trouble,
        runtime_trouble="",
        handlers=_handlers(answer.runtime_handlers),
        supplemental_groups=features.supplemental_groups_policy if features else None,
    )


def _handlers(found: Sequence[cri.RuntimeHandler]) -> tuple[Handler, ...]:
    handlers = (
        Handler(one.name, one.features.recursive_read_only_mounts, one.features.user_namespaces) for one in found
    )
    return tuple(sorted(handlers, key=lambda one: one.name))


def _described(condition: cri.RuntimeCondition | None) -> str:
    if condition is None:
        return "<nil>"
    holds = "true" if condition.status else "false"
    return f"{condition.type}={holds} reason:{condition.reason} message:{condition.message}"
