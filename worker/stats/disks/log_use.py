"""Disk usage of a container's logs (stats/host_stats_provider.go)."""

import os
from pathlib import Path
from typing import Final, NamedTuple

from worker.stats.cgroups.owners import Owner

_BLOCK: Final = 512


class FileUsage(NamedTuple):
    """Bytes and number of files."""

    used_bytes: int = 0
    files: int = 0


def log_usage(pod_logs_dir: Path, owner: Owner) -> FileUsage:
    """Count the files in a container's log folder; none if there is no such folder. Blocks."""
    return used_below(f"{pod_logs_dir}/{owner.namespace}_{owner.pod}_{owner.pod_uid}/{owner.container}")


def hosts_file_usage(root_dir: Path, uid: str) -> FileUsage:
    """Count a pod's hosts file, which the node writes."""
    try:
        found = os.lstat(f"{root_dir}/pods/{uid}/etc-hosts")
    except OSError:
        return FileUsage()
    return FileUsage(found.st_blocks * _BLOCK, 1)


def used_below(folder: Path | str) -> FileUsage:
    """Count the files in a folder; none if there is no such folder. Blocks."""
    used, files = 0, 0
    try:
        with os.scandir(folder) as entries:
            for one in entries:
                if one.is_dir(follow_symlinks=False):
                    continue
                used += one.stat(follow_symlinks=False).st_blocks * _BLOCK
                files += 1
    except OSError:
        return FileUsage(used, files)
    return FileUsage(used, files)
