"""The links `<pod>_<namespace>_<container>-<id>.log` by which log agents find the logs of running containers.

They point to the pods' log files and are in /var/log/containers (pkg/kubelet/kuberuntime/legacy.go; our key
logs.legacyContainerLogsDir sets another folder). They are created when a container has started and removed with it.
The worker removes dangling ones (kuberuntime_gc.go evictPodLogsDirectories). No start or removal fails because of a
link. Only links are removed, and only those into this node's podLogsDir.
"""

import asyncio
import errno
import logging
import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from activities.files.pod_paths import PodPaths
from proto.cri.v1 import api_pb2 as cri
from proto.temporal.pod import PodKey

_SUFFIX: Final = ".log"
_LONGEST_NAME: Final = 255  # ext4's
_log: Final = logging.getLogger(__name__)


class ContainerLinks:
    """The folder of links; None: no links are made."""

    def __init__(self, folder: Path | None, pod_logs_dir: Path) -> None:
        self._folder, self._pod_logs_dir = folder, pod_logs_dir

    def name(self, pod: PodKey, container: str, container_id: str) -> str:
        """Return the name of a container's link, cut to the length of a file name."""
        return f"{pod.name}_{pod.namespace}_{container}-{container_id}"[: _LONGEST_NAME - len(_SUFFIX)] + _SUFFIX

    def make(self, pod: PodKey, container: str, container_id: str, log: str) -> None:
        """Link a container's log if it has one; raises OSError."""
        if self._folder is None or not log or not os.path.lexists(log):
            return
        link = self._folder / self.name(pod, container, container_id)
        with suppress(FileExistsError):
            try:
                link.symlink_to(log)
            except FileNotFoundError:
                self._folder.mkdir(mode=0o755, parents=True, exist_ok=True)
                link.symlink_to(log)

    def remove(self, pod: PodKey, container: str, container_id: str) -> None:
        """Remove a container's link; a missing one is fine. Raises OSError."""
        if self._folder is not None:
            self._remove(self._folder / self.name(pod, container, container_id), self._pod_logs_dir)

    def remove_all(self, paths: PodPaths) -> None:
        """Remove every link into the logs of a pod; raises OSError."""
        of_pod = f"{paths.key.name}_{paths.key.namespace}_"
        for link in self._links():
            if link.name.startswith(of_pod):
                self._remove(link, paths.logs)

    def sweep(self, running: Collection[str]) -> int:
        """Remove the links whose log is gone, except those of `running` container IDs, whose log may be in rotation.

        Returns how many; raises OSError.
        """
        swept = 0
        for link in self._links():
            container_id = link.name.removesuffix(_SUFFIX).rpartition("-")[2]
            if not link.exists() and not any(one.startswith(container_id) for one in running):
                swept += self._remove(link, self._pod_logs_dir)
        return swept

    def _links(self) -> Iterator[Path]:
        if self._folder is None:
            return
        with suppress(FileNotFoundError), os.scandir(self._folder) as entries:
            for entry in entries:
                if entry.is_symlink() and entry.name.endswith(_SUFFIX):
                    yield self._folder / entry.name

    def _remove(self, link: Path, below: Path) -> bool:
        """Remove a link that points below a folder; any other file stays."""
        try:
            if not Path(os.readlink(link)).is_relative_to(below):  # noqa: PTH115 -- as it is written, not resolved
                return False
            link.unlink()
        except FileNotFoundError:
            return True
        except OSError as error:
            if error.errno == errno.EINVAL:  # not a link
                return False
            raise
        return True


async def link_log(links: ContainerLinks, pod: PodKey, started: cri.ContainerStatus) -> None:
    """Link a started container's log; never fails."""
    name = started.metadata.name
    try:
        await asyncio.to_thread(links.make, pod, name, started.id, started.log_path)
    except OSError as error:
        _log.warning("no link to the log of %s of %s: %s", name, pod, error)


async def unlink_log(links: ContainerLinks, pod: PodKey, container: str, container_id: str) -> None:
    """Remove the link of a removed container; never fails."""
    try:
        await asyncio.to_thread(links.remove, pod, container, container_id)
    except OSError as error:
        _log.warning("the link to the log of %s of %s stays: %s", container, pod, error)


async def unlink_logs(links: ContainerLinks, paths: PodPaths) -> None:
    """Remove all links of a pod whose logs are removed; never fails."""
    try:
        await asyncio.to_thread(links.remove_all, paths)
    except OSError as error:
        _log.warning("links to the logs of %s stay: %s", paths.key, error)
