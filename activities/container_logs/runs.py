"""Which run of a container is meant when its log is asked for, and which file that run has written.

Asked by `tempolet logs` and by the node's API. The rules are the kubelet's (kubelet_pods.go validateContainerLogStatus): the
run that goes on, else the one that ended last; with `previous` the one before that. A run is known by its container's id.
"""

from collections.abc import Mapping
from typing import Any, Final

from activities.container_logs.log_files import ContainerLog
from activities.pod_paths import PodPaths
from proto.pod_snapshot import ContainerSnapshot

STATUSES: Final = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
"""Where a pod's status tells of its containers."""


def statuses_of(status: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Give a pod's container statuses by name, init containers first."""
    return {one["name"]: one for kind in STATUSES for one in status.get(kind) or ()}


def run_of(status: Mapping[str, Any], *, previous: bool) -> str:
    """Say which run of a container is meant, by its id; empty where there is none to read of."""
    state, last = status.get("state") or {}, (status.get("lastState") or {}).get("terminated") or {}
    if previous:
        found = last.get("containerID")
    elif "running" in state:
        found = status.get("containerID")
    else:
        found = (state.get("terminated") or {}).get("containerID") or last.get("containerID")
    return str(found or "").rpartition("/")[2]


def log_of_run(paths: PodPaths, container: str, newest: ContainerSnapshot, run: str) -> ContainerLog | None:
    """Find the log of the newest run or of one before it; None: that is gone. Looks at the disk; raises OSError."""
    log = ContainerLog(paths, container, newest.attempt)
    if run == newest.container_id:
        return log
    before = [one for one in log.attempts() if one < newest.attempt]
    return ContainerLog(paths, container, before[-1]) if before else None
