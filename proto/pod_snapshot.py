"""`<root-dir>/pods/<uid>/observed.json`: the node's cache of one pod, a copy for readers, never authoritative.

Written by the worker after each decision, so that readers (the poller's resync, `tempolet pods`, the node's API) need
not query 110 workflows. It contains no env value and no secret.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

from proto.kubernetes.resources.storage_limits import StorageLimits
from proto.temporal.pod import Lifecycle
from proto.temporal.ticket import UNTICKETED, Ticket

FILE_NAME: Final = "observed.json"
POD_FILE_NAME: Final = "pod.json"
"""In the same directory: the pod as its source has it, on a standalone node only what evictions need of it; written when that changes."""
FINAL_PHASES: Final = ("Succeeded", "Failed")
"""The phases that never change."""


@dataclass(frozen=True, slots=True)
class ContainerSnapshot:
    """One container's newest instance; `state` is the CRI's, or empty before the first start."""

    container_id: str = ""
    state: str = ""
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class PodSnapshot:
    """What the workflow of a pod last decided; times are RFC 3339."""

    workflow_id: str
    node: str
    namespace: str
    name: str
    uid: str
    source: str
    path: str
    lifecycle: str
    phase: str = "Pending"
    ready: bool = False
    reason: str = ""
    message: str = ""
    restarts: int = 0
    started_at: str = ""
    updated_at: str = ""
    deleting: bool = False
    released: bool = False
    """Nothing of it runs, and neither its network, nor a volume, nor a prepared claim is left."""
    may_have_claims: bool = False
    """A ResourceClaim may be prepared for it, so that its devices are not free."""
    sandbox_id: str = ""
    sandbox_ready: bool = False
    containers: dict[str, ContainerSnapshot] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)
    objects: dict[str, str] = field(default_factory=dict)
    """The objects to watch for the pod, by `<plural>/<name>`, with the version that it shows; `?` for none yet."""
    ends_awaited: tuple[str, ...] = ()
    """Names of containers whose start is under way and will also answer their end, if it comes at once."""
    under_way: tuple[str, ...] = ()
    """The keys of the actions under way, for `worker/host/temporal/lost_attempts.py`."""
    storage_limits: StorageLimits | None = None
    """Its limits of local storage; None if it has none, or exceeding them has no consequence."""
    eviction_reason: str = ""
    """Why its node evicts it; empty if it does not. The status may lack it, for what is evicted may succeed."""
    eviction_message: str = ""
    event_annotations: dict[str, str] = field(default_factory=dict)
    """Of the event that tells of its eviction."""
    end_awaited_until: str = ""
    """Until when a pod that its node evicts, preempts or shuts down ought to have ended; empty for all others."""
    resize_cause: str = ""
    """Why the node does not grant a resize, in one word, for its event; empty if there is none, or an earlier release judged it."""
    resize_asked: dict[str, Any] = field(default_factory=dict)
    """The resources which that resize asks for, by container."""
    ticket: Ticket = UNTICKETED
    """The ticket of the run that has published this: a node that has lost its tickets finds it here."""
    pod: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """The pod as its source has it, shared and never changed: for readers in this process; others read `pod.json`."""

    def to_json(self) -> bytes:
        """Write it as JSON."""
        # asdict would copy the whole status
        said = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "pod"}
        return json.dumps(said, default=asdict, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, data: bytes) -> "PodSnapshot":
        """Read it; raises ValueError or TypeError if another version wrote it, or the file is damaged."""
        raw = json.loads(data)
        try:
            raw["containers"] = {name: ContainerSnapshot(**one) for name, one in raw.get("containers", {}).items()}
            if limits := raw.get("storage_limits"):
                raw["storage_limits"] = StorageLimits(**limits)
            if ticket := raw.get("ticket"):
                raw["ticket"] = Ticket(str(ticket["incarnation"]), int(ticket["epoch"]))
        except (AttributeError, KeyError) as error:
            raise ValueError(f"no snapshot of a pod: {error}") from error
        found = cls(**raw)
        if odd := [one.name for one in fields(cls) if one.type is str and not isinstance(raw.get(one.name, ""), str)]:
            raise ValueError(f"no snapshot of a pod: {odd[0]} is no text")
        return found


def is_over(snapshot: PodSnapshot) -> bool:
    """Say whether this is a pod's last snapshot: it is being deleted and all its containers have terminated."""
    return snapshot.deleting and snapshot.lifecycle == Lifecycle.TERMINATED


def has_ended(snapshot: PodSnapshot) -> bool:
    """Say whether a pod has reached its final phase, or nothing of it is left."""
    return snapshot.lifecycle == Lifecycle.TERMINATED or snapshot.phase in FINAL_PHASES


def is_terminating(snapshot: PodSnapshot) -> bool:
    """Say whether a pod is being stopped, or about to be (pkg/kubelet/pod_workers.go IsPodTerminationRequested)."""
    return snapshot.deleting or snapshot.lifecycle == Lifecycle.TERMINATING


def is_active(snapshot: PodSnapshot) -> bool:
    """Say whether a pod may still hold resources: one in a final phase does while it is being stopped (kubelet_pods.go isPodInactive)."""
    if snapshot.lifecycle == Lifecycle.TERMINATED:
        return False
    return snapshot.phase not in FINAL_PHASES or is_terminating(snapshot)


def is_counted(snapshot: PodSnapshot) -> bool:
    """Say whether a pod counts among those that hold resources: it is active, and its spec is known here."""
    return bool(snapshot.pod) and is_active(snapshot)


def pod_folders(root_dir: Path) -> list[str]:
    """List the UIDs of the pods that have a folder, also those of a kubelet that was here before."""
    try:
        return os.listdir(root_dir / "pods")  # noqa: PTH208 - names only
    except OSError:
        return []


def snapshot_path(root_dir: Path, pod_uid: str) -> Path:
    """Return the path of a pod's snapshot."""
    return root_dir / "pods" / pod_uid / FILE_NAME


def pod_path(root_dir: Path, pod_uid: str) -> Path:
    """Return the path of the pod as its source has it."""
    return root_dir / "pods" / pod_uid / POD_FILE_NAME


def read_snapshots(root_dir: Path, *, whole_pods: bool = False) -> list[PodSnapshot]:
    """Read every pod's snapshot; a damaged or missing one is left out: the poller has its pod write it again.

    `whole_pods`: with the pod itself, if that was written.
    """
    found = []
    for path in sorted(root_dir.glob(f"pods/*/{FILE_NAME}")):
        try:
            snapshot = PodSnapshot.from_json(path.read_bytes())
        except (OSError, ValueError, TypeError):
            continue
        found.append(replace(snapshot, pod=_read_pod(path.with_name(POD_FILE_NAME))) if whole_pods else snapshot)
    return found


def _read_pod(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
