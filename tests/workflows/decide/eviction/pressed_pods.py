"""Pods, what they use, and measurements, for the tables of this folder."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from proto.kubernetes.resources.quantity import parse_quantity
from proto.temporal.eviction.candidates import Candidate
from proto.temporal.eviction.readings import ContainerUse, FileUse, Observation, PodUse
from proto.temporal.eviction.thresholds import Amount, Signal, Threshold
from workflows.decide.eviction.candidates import candidate

MI = 1024 * 1024
START = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    """Return a time so many seconds after the start."""
    return START + timedelta(seconds=seconds)


def named(name: str, priority: int | None = None, **requests: str) -> Candidate:
    """Build a pod with a container `c`; `ephemeral_storage="1Gi"` is a request of ephemeral-storage."""
    spec: dict[str, Any] = {"containers": [container("c", **requests)]}
    if priority is not None:
        spec["priority"] = priority
    return of_spec(name, spec)


def of_spec(name: str, spec: Mapping[str, Any], *, alone: bool = False, **annotations: str) -> Candidate:
    """Build a pod with this spec."""
    written = {key.replace("__", "/").replace("_", "."): value for key, value in annotations.items()}
    metadata = {"name": name, "namespace": "default", "uid": name, "annotations": written}
    return candidate({"metadata": metadata, "spec": spec}, alone=alone)


def container(name: str, **requests: str) -> dict[str, Any]:
    """Build a container."""
    return {"name": name, "resources": {"requests": {key.replace("_", "-"): one for key, one in requests.items()}}}


def uses(memory: int | None = None, processes: int | None = None, root: int = 0, root_inodes: int = 0) -> PodUse:
    """Build what a pod of one container uses."""
    files = FileUse(root, root_inodes)
    return PodUse(memory, processes, root, (ContainerUse("c", memory, files, FileUse(0, 0)),))


def threshold(signal: Signal, least: str, grace: float = 0, reclaim: str = "") -> Threshold:
    """Build a threshold from `100Mi` or `10%`."""
    return Threshold(signal, amount(least), timedelta(seconds=grace), amount(reclaim) if reclaim else None)


def amount(text: str) -> Amount:
    """Build an amount."""
    return Amount(share=float(text[:-1]) / 100) if text.endswith("%") else Amount(text)


def left(available: str, capacity: str = "1Gi", since: float | None = None) -> Observation:
    """Build an observation."""
    sizes = [parse_quantity(one).value for one in (available, capacity)]
    return Observation(sizes[0], sizes[1], None if since is None else at(since))
