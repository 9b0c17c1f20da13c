"""Makes and removes a pod's directories: the kubelet's `pods/<uid>` and the pod's log folder."""

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import Final

from temporalio import activity

from activities.execution.errors import non_retryable_failure
from activities.execution.heartbeat import heartbeating
from activities.files.file_trees import StillMounted, remove_tree
from activities.files.pod_paths import PodPaths
from activities.logs.links import unlink_logs
from activities.machine.cgroups import pids_below
from activities.pods.services import PodServices
from proto.temporal import names
from proto.temporal.activities.requests import MakePodDirectories, RemovePodDirectories
from proto.temporal.pod import PodKey

_POD_MODE: Final = 0o750  # kubelet_pods.go makePodDataDirs
_LOG_MODE: Final = 0o755
_CGROUP_SECONDS: Final = 5.0
_CGROUP_PAUSE: Final = 0.01
_POD_FOLDERS: Final = ("volumes", "plugins", "containers")


class DirectoryActivities:
    """Activities for a pod's directories: the first step of its life and the last."""

    def __init__(self, services: PodServices) -> None:
        self._services = services

    @activity.defn(name=names.MAKE_POD_DIRECTORIES)
    async def make_pod_directories(self, request: MakePodDirectories) -> None:
        """Make the pod's directories; existing ones stay as they are. Raises FailedToMakePodDataDirectories."""
        await make_directories(self._services.paths(request.pod), request.containers)

    @activity.defn(name=names.REMOVE_POD_DIRECTORIES)
    async def remove_pod_directories(self, request: RemovePodDirectories) -> None:
        """Remove the pod's cgroup, logs and directories; what is gone counts as removed.

        Raises VolumeStillMounted, CgroupNotRemoved or FailedToRemovePodDirectories.
        """
        paths = self._services.paths(request.pod)
        async with heartbeating(f"remove the directories of {request.pod}"):
            try:
                await self._remove_cgroup(request.pod)
                await unlink_logs(self._services.links, paths)
                await asyncio.to_thread(remove_tree, paths.logs)
                await asyncio.to_thread(remove_tree, paths.directory)
            except StillMounted as error:
                raise non_retryable_failure("VolumeStillMounted", f"directories of {request.pod}: {error}") from error
            except OSError as error:
                raise non_retryable_failure(
                    "FailedToRemovePodDirectories", f"directories of {request.pod}: {error}"
                ) from error

    async def _remove_cgroup(self, pod: PodKey) -> None:
        """Retry until the kernel releases the cgroup, without blocking a thread."""
        until = monotonic() + _CGROUP_SECONDS
        while left := await asyncio.to_thread(self._services.cgroups.remove_pod, pod.uid):
            if monotonic() > until:
                pids = sorted({pid for folder in left for pid in pids_below(folder)})
                message = f"{left[0]} is still in use by processes {pids} after SIGKILL; see their state in /proc"
                raise non_retryable_failure("CgroupNotRemoved", message)
            await asyncio.sleep(_CGROUP_PAUSE)


async def make_directories(paths: PodPaths, containers: Sequence[str]) -> None:
    """Make the pod's directories; existing ones stay as they are. Raises FailedToMakePodDataDirectories."""
    try:
        await asyncio.to_thread(_make, paths, containers)
    except OSError as error:
        raise non_retryable_failure("FailedToMakePodDataDirectories", f"directories of {paths.key}: {error}") from error


def _make(paths: PodPaths, containers: Sequence[str]) -> None:
    _make_directory(paths.directory, _POD_MODE)
    for folder in _POD_FOLDERS:
        _make_directory(paths.directory / folder, _POD_MODE)
    for container in containers:
        _make_directory(paths.container_logs(container), _LOG_MODE)


def _make_directory(directory: Path, mode: int) -> None:
    """Make one directory with its parents and exactly this mode, whatever the umask is."""
    with contextlib.suppress(FileExistsError):
        directory.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir(mode)  # never more open than wanted, even if this process dies here
        directory.chmod(mode)
    if directory.is_symlink() or not directory.is_dir():
        raise NotADirectoryError(f"{directory} is not a directory; remove it, and the pod continues by itself")
