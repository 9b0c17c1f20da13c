"""Computes the current Node: its last known object with this node's fields replaced.

Used by `own_node`. Fields of others are kept: volumesAttached, extended resources, other conditions and, with an external cloud
provider, the addresses (pkg/kubelet/kubelet_node_status.go defaultNodeStatusFuncs).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from proto.kubernetes.resources.extended import is_extended_resource
from proto.kubernetes.resources.quantity import Quantity
from proto.node_devices import DeviceCount
from worker.machine.addresses import without_unspecified
from worker.machine.machine import Machine
from worker.node.object.conditions import NodeEvent, conditions, with_failing_loops, with_workflow_engine
from worker.node.object.features import node_features, runtime_handlers
from worker.node.object.resources import HUGE_PAGES, allocatable, capacity, device_allocatable, device_capacity
from worker.node.runtime.state import RuntimeState
from worker.telemetry.workflow_engine import WorkflowEngine

Json = dict[str, Any]

PROVIDED_ADDRESSES: Final = "alpha.kubernetes.io/provided-node-ip"
UNKNOWN_RUNTIME: Final = "Unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """The configuration that appears in a Node."""

    name: str
    kubelet_version: str
    max_pods: int
    port: int
    """Port of the node's HTTPS API; 0: it has none."""
    given_addresses: tuple[str, ...] = ()
    """--node-ip."""
    external_cloud: bool = False
    declared_features: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """Facts about the machine and its runtime."""

    machine: Machine
    runtime: RuntimeState
    addresses: tuple[str, ...] = ()
    """The node's addresses; empty: not found, and the known ones are kept."""
    storage_bytes: int | None = None
    """Size of the root directory's disk; None: not limited, or not readable."""
    reserved: Mapping[str, Quantity] = field(default_factory=dict)
    """Resources reserved from pods."""
    devices: Mapping[str, DeviceCount] = field(default_factory=dict)
    """Those of device plugins, by resource."""
    volumes_in_use: tuple[str, ...] = ()
    """By the names the attach/detach controller uses."""
    pressures: frozenset[str] = frozenset()
    history_limited: bool = False
    """The database of histories has a limit."""
    troubles: tuple[str, ...] = ()
    """Reasons other than the runtime's why the node is not Ready."""
    failing_loops: tuple[str, ...] = ()
    """Loops of the node's three processes that fail now."""
    workflow_engine: WorkflowEngine | None = None
    """What the worker tells of Temporal; None: nothing."""
    found_at: datetime | None = None
    """By the monotonic clock; None: the time the status is computed."""


def current_node(node: Json, settings: NodeSettings, facts: NodeFacts, now: datetime) -> tuple[Json, list[NodeEvent]]:
    """Return the Node as of `now`, and the events of the change."""
    before: Json = node.get("status") or {}
    has = {name: text for name, text in (before.get("capacity") or {}).items() if not name.startswith(HUGE_PAGES)}
    if _was_another(before.get("nodeInfo") or {}, facts.machine):
        # there are no devices until plugins of this machine register
        has = {name: "0" if is_extended_resource(name) else text for name, text in has.items()}
    has |= capacity(facts.machine, facts.storage_bytes, settings.max_pods) | device_capacity(facts.devices)
    troubles = (*facts.runtime.troubles(facts.found_at or now), *facts.troubles)
    found, events = conditions(
        before.get("conditions") or (),
        pressures=facts.pressures,
        troubles=troubles,
        now=now,
        history_limited=facts.history_limited,
    )
    found = with_failing_loops(found, facts.failing_loops, now)
    found = with_workflow_engine(found, facts.workflow_engine, now)
    boot = (before.get("nodeInfo") or {}).get("bootID")
    if boot and boot != facts.machine.boot_id:
        words = f"Node {settings.name} has been rebooted, boot id: {facts.machine.boot_id}"
        events.insert(0, NodeEvent("Rebooted", words, "Warning"))
    status: Json = {
        **before,
        "capacity": has,
        "allocatable": allocatable(has, facts.reserved) | device_allocatable(facts.devices),
        "conditions": found,
        "addresses": _addresses(before.get("addresses") or [], settings, facts.addresses),
        "daemonEndpoints": {"kubeletEndpoint": {"Port": settings.port}},
        "nodeInfo": _node_info(before.get("nodeInfo") or {}, settings, facts),
        "declaredFeatures": list(settings.declared_features),
    }
    status |= _of_runtime(facts.runtime)
    if facts.volumes_in_use or before.get("volumesInUse"):
        status["volumesInUse"] = list(facts.volumes_in_use)
    return {**node, "metadata": _metadata(node["metadata"], settings, facts.machine), "status": status}, events


def _of_runtime(runtime: RuntimeState) -> Json:
    """Return what the runtime has reported; what it has not reported since the start is kept."""
    found: Json = {}
    if runtime.images is not None:
        found["images"] = list(runtime.images)
    if runtime.last_ready is not None:
        found["runtimeHandlers"] = runtime_handlers(runtime)
    if (features := node_features(runtime)) is not None:
        found["features"] = features
    return found


def _metadata(metadata: Json, settings: NodeSettings, machine: Machine) -> Json:
    """Set the labels the scheduler needs, and the annotation that tells a cloud controller --node-ip."""
    labels = {
        **(metadata.get("labels") or {}),
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": machine.architecture,
    }
    annotations = {key: text for key, text in (metadata.get("annotations") or {}).items() if key != PROVIDED_ADDRESSES}
    if settings.external_cloud and (given := without_unspecified(settings.given_addresses)):
        annotations[PROVIDED_ADDRESSES] = ",".join(given)
    return {**metadata, "labels": labels, "annotations": annotations}


def _addresses(before: list[Json], settings: NodeSettings, found: tuple[str, ...]) -> list[Json]:
    hostname = {"type": "Hostname", "address": settings.name}
    if settings.external_cloud:
        if before:  # set by the cloud controller
            return before
        if not settings.given_addresses:
            return [hostname]
    if not found:
        return before
    return [*({"type": "InternalIP", "address": one} for one in found), hostname]


def _was_another(before: Json, machine: Machine) -> bool:
    """Report whether the Node was another machine's, or an earlier installation's (ShouldResetExtendedResourceCapacity)."""
    known = before.get("machineID")
    return bool(known and machine.machine_id) and known != machine.machine_id


def _node_info(before: Json, settings: NodeSettings, facts: NodeFacts) -> Json:
    machine = facts.machine
    found = {
        **before,
        "machineID": machine.machine_id,
        "systemUUID": machine.system_uuid,
        "bootID": machine.boot_id,
        "kernelVersion": machine.kernel_version,
        "osImage": machine.os_image,
        "containerRuntimeVersion": facts.runtime.version or before.get("containerRuntimeVersion") or UNKNOWN_RUNTIME,
        "kubeletVersion": settings.kubelet_version,
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": machine.architecture,
    }
    return found | ({"swap": {"capacity": machine.swap_bytes}} if machine.swap_bytes else {})
