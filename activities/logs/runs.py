"""Finds the run of a container whose log is requested, its log file, and whether it is still running.

Used by `tempolet logs` and by the node's API. The rules are the kubelet's (kubelet_pods.go
validateContainerLogStatus): the current run, else the one that ended last; with `previous` the one before. A run is
identified by its container ID.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from activities.files.pod_paths import PodPaths
from activities.logs.log_files import ContainerLog
from proto.pod_snapshot import ContainerSnapshot, PodSnapshot, snapshot_path
from proto.temporal.pod import ContainerState

STATUSES: Final = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
"""The fields of a pod's status with container statuses."""


def statuses_of(status: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return a pod's container statuses by name, init containers first."""
    return {one["name"]: one for kind in STATUSES for one in status.get(kind) or ()}


def run_of(status: Mapping[str, Any], *, previous: bool) -> str:
    """Return the container ID of the requested run; empty if there is none to read."""
    state, last = status.get("state") or {}, (status.get("lastState") or {}).get("terminated") or {}
    if previous:
        found = last.get("containerID")
    elif "running" in state:
        found = status.get("containerID")
    else:
        found = (state.get("terminated") or {}).get("containerID") or last.get("containerID")
    return str(found or "").rpartition("/")[2]


def log_of_run(paths: PodPaths, container: str, newest: ContainerSnapshot, run: str) -> ContainerLog | None:
    """Find the log of the newest run or of the one before; None if it is gone. Reads the disk; raises OSError."""
    log = ContainerLog(paths, container, newest.attempt)
    if run == newest.container_id:
        return log
    before = [one for one in log.attempts() if one < newest.attempt]
    return ContainerLog(paths, container, before[-1]) if before else None


@dataclass(slots=True)
class StillRunning:
    """Reports, by the node's cache of the pod, whether a run of a container is still running."""

    log: ContainerLog
    container_id: str
    _seen: tuple[int, int] = (0, 0)
    _running: bool = True

    def __call__(self) -> bool:
        """Check; called in threads, one at a time."""
        path = snapshot_path(self.log.paths.root_dir, self.log.paths.key.uid)
        try:
            found = path.stat()
            if (found.st_ino, found.st_mtime_ns) != self._seen:
                self._running = self._look(PodSnapshot.from_json(path.read_bytes()))
                self._seen = (found.st_ino, found.st_mtime_ns)
        except (OSError, ValueError, TypeError):
            return False  # the pod is gone
        return self._running

    def _look(self, pod: PodSnapshot) -> bool:
        now = pod.containers.get(self.log.container)
        return now is not None and now.container_id == self.container_id and now.state == ContainerState.RUNNING
