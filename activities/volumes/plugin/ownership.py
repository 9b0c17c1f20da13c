"""Gives a volume's files to the pod's fsGroup (pkg/volume/volume_linux.go).

Runs in a thread before a volume counts as mounted. The walk never follows links and never enters another mount
(`tree_walk`), so links that a container has planted in a volume lead nowhere. The volume's root comes last, so it
shows a later mount whether the walk was completed.
"""

import os
import stat
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from activities.files.tree_walk import walk_tree
from proto.kubernetes.pod_containers import every_container

ON_ROOT_MISMATCH: Final = "OnRootMismatch"
_READ_WRITE: Final = 0o660
_READ: Final = 0o440
_ENTER: Final = 0o110
_MODE: Final = 0o7777


@dataclass(frozen=True, slots=True)
class FsGroup:
    """The group that owns the files of a pod's volumes."""

    group: int
    policy: str = ""
    """fsGroupChangePolicy: Always (the default) or OnRootMismatch."""


def fs_group_of(pod: Mapping[str, Any]) -> FsGroup | None:
    """Read a pod's fsGroup and its policy; None if it has none."""
    security = (pod.get("spec") or {}).get("securityContext") or {}
    group = security.get("fsGroup")
    return None if group is None else FsGroup(group, security.get("fsGroupChangePolicy") or "")


def fs_user_of(pod: Mapping[str, Any]) -> int | None:
    """Return the user that all containers of a pod run as; None if they differ or one does not say (FsUserFrom)."""
    spec = pod.get("spec") or {}
    of_pod = (spec.get("securityContext") or {}).get("runAsUser")
    users = {(one.get("securityContext") or {}).get("runAsUser", of_pod) for one in every_container(spec)}
    return users.pop() if len(users) == 1 else None


def apply_fs_group(directory: Path, wanted: FsGroup, *, read_only: bool = False) -> int:
    """Give all files of a volume to a group, with read and (unless it is read-only) write access.

    Returns how many files were visited. A file whose group cannot be changed stays as it is, as in the kubelet (a
    server may not allow it). Raises OSError if a directory cannot be read.
    """
    if wanted.policy == ON_ROOT_MISMATCH and root_matches(directory, wanted.group, read_only=read_only):
        return 0
    looked_at = 0
    with closing(walk_tree(directory)) as visits:
        for visit in visits:
            looked_at += 1
            if visit.is_foreign:
                continue
            with suppress(OSError):
                _give(visit.parent, visit.name, wanted.group, read_only=read_only)
    return looked_at


def root_matches(directory: Path, group: int, *, read_only: bool = False) -> bool:
    """Report whether a volume's root belongs to the group and has at least the access that it would get."""
    try:
        found = directory.stat()
    except OSError:
        return False
    wanted = _rights(found.st_mode, read_only=read_only)
    is_group = found.st_gid == group and stat.S_ISDIR(found.st_mode)
    return is_group and found.st_mode & _MODE & wanted == wanted


def _rights(mode: int, *, read_only: bool) -> int:
    rights = _READ if read_only else _READ_WRITE
    return rights | _ENTER | stat.S_ISGID if stat.S_ISDIR(mode) else rights


def _give(parent: int, name: str, group: int, *, read_only: bool) -> None:
    """Change the group of one file, whatever it is by now; of a link itself, which has no mode of its own."""
    opened = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        found = os.fstat(opened)
        if stat.S_ISLNK(found.st_mode):
            os.chown(name, -1, group, dir_fd=parent, follow_symlinks=False)
            return
        this = f"/proc/self/fd/{opened}"
        if found.st_gid != group:
            with suppress(OSError):
                os.chown(this, -1, group)
        mode = found.st_mode & _MODE
        if (wanted := mode | _rights(found.st_mode, read_only=read_only)) != mode or found.st_gid != group:
            os.chmod(this, wanted)  # noqa: PTH101 -- by descriptor; a change of owner may have taken its set-id bits
    finally:
        os.close(opened)
