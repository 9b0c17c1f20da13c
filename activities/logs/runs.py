"""Which run of a container is meant when its log is asked for, which file that run has written, and whether it goes on.

Asked by `tempolet logs` and by the node's API. The rules are the kubelet's (kubelet_pods.go validateContainerLogStatus): the
run that goes on, else the one that ended last; with `previous` the one before that. A run is known by its container's id.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from activities.files.pod_paths import PodPaths
from activities.logs.log_files import ContainerLog
from proto.pod_snapshot import ContainerSnapshot, PodSnapshot, snapshot_path
from proto.temporal.pod import ContainerState

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


@dataclass(slots=True)
class StillRunning:
    """Says, by the node's cache of the pod, whether one run of a container goes on."""

    log: ContainerLog
    container_id: str
    _seen: tuple[int, int] = (0, 0)
    _running: bool = True

    def __call__(self) -> bool:
        """Look; called in threads, one after the other."""
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
