"""Show a container one path of a volume: `volumeMounts[].subPath`, safe against whatever happens in the volume meanwhile.

Asked by `volume_mounts` before a container is made, and by the unmounting of a volume. What is at the path is opened without
leaving the volume (`beneath`), and that descriptor, no path, is bound to
`pods/<uid>/volume-subpaths/<volume>/<container>/<index of the mount>`, which no container can touch and from where the
runtime mounts it. Same places, modes and words as pkg/volume/util/subpath/subpath_linux.go and kubelet_pods.go makeMounts:
a failure names the container and its mount, and nothing of what lies on the node. All of it may block: call it in a thread.
"""

import contextlib
import logging
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from activities.cri_config.environment import expand, names_in
from activities.files import mounts
from activities.files.pod_paths import plain_name
from activities.files.safe_open import NotMade, open_beneath
from proto.temporal.mounted import MountedVolume

FOLDER: Final = "volume-subpaths"
_FOLDER_MODE: Final = 0o750
_FILE_MODE: Final = 0o640
_LOG: Final = logging.getLogger(__name__)


class SubPathFailed(ValueError):
    """A path of a volume can't be mounted; the message is for the pod's status."""


@dataclass(frozen=True, slots=True)
class SubPath:
    """Which path of which volume, for which mount of which container."""

    pod_dir: Path
    container: str
    index: int
    """Of the mount among the container's volumeMounts."""
    name: str
    """Of the volume in the pod."""
    volume_path: Path
    """Where the volume's files lie."""
    path: str = field(repr=False)
    """Relative to it, of `path_of`."""

    @property
    def place(self) -> Path:
        """Where the path is bound to."""
        volume, container = plain_name(self.name, "volume name"), plain_name(self.container, "container name")
        return self.pod_dir / FOLDER / volume / container / str(self.index)


def path_of(mount: Mapping[str, Any], variables: Mapping[str, str]) -> str:
    """Say which path of its volume a volumeMount shows, empty for all of it; raises SubPathFailed.

    The message shows an expression as it is written, for what it refers to may be a secret. Source: kubelet_pods.go
    makeMounts, pkg/kubelet/container/helpers.go ExpandContainerVolumeMounts.
    """
    written = mount.get("subPathExpr") or mount.get("subPath") or ""
    path = written
    if mount.get("subPathExpr"):
        if missing := sorted({name for name in names_in(written) if not variables.get(name)}):
            raise SubPathFailed(f"missing value for {', '.join(missing)}")
        path = expand(written, variables)
    if path.startswith("/"):
        raise SubPathFailed(f"error SubPath `{written}` must not be an absolute path")
    if ".." in path.split("/"):
        raise SubPathFailed(f"unable to provision SubPath `{written}`: must not contain '..'")
    return path


def mount_sub_paths(
    pod_dir: Path, container: Mapping[str, Any], volumes: Sequence[MountedVolume], variables: Mapping[str, str]
) -> dict[int, str]:
    """Bind every path that a container mounts instead of a whole volume; answers by the mount's index where each lies.

    Of an image it answers the path itself, which is the runtime's to look for.

    Raises SubPathFailed. A mount of a volume that is not there is for `volume_mounts` to tell.
    """
    found, known = {}, {one.name: one for one in volumes if not one.device}
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        path, volume = path_of(mount, variables), known.get(mount["name"])
        if not path or volume is None:
            continue
        if volume.image:  # the runtime itself mounts it
            found[index] = path
        else:
            wanted = SubPath(pod_dir, str(container["name"]), index, volume.name, Path(volume.path), path)
            found[index] = str(mount_sub_path(wanted))
    return found


def mount_sub_path(wanted: SubPath) -> Path:
    """Bind a path of a volume to the container's place for it, and answer that; directories that are missing are made.

    What is bound there already is kept when it is the same file, else it is unmounted first. Raises SubPathFailed.
    """
    doing = f'for volumeMount "{wanted.name}" of container "{wanted.container}"'
    try:
        with open_beneath(wanted.volume_path, wanted.path) as source:
            _bind(source, wanted.place)
    except NotMade as error:
        _LOG.warning("subPath of %s: a directory of it can't be made: %s", wanted.place, error.strerror)
        raise SubPathFailed(f"failed to create subPath directory {doing}") from error
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no path"  # the path may come from a secret
        _LOG.warning("subPath of %s: %s", wanted.place, why)
        raise SubPathFailed(f"failed to prepare subPath {doing}") from error
    return wanted.place


def unmount_sub_paths(pod_dir: Path) -> None:
    """Undo every bind of a pod and remove their places; what is gone counts as undone. Raises OSError.

    A place that is still busy stays, with all above it; nothing below a place is ever removed.
    """
    top = pod_dir / FOLDER
    for volume in _listed(top):
        for container in _listed(volume):
            for place in _listed(container):
                mounts.unmount(place)
                _remove(place)
            _remove(container)
        _remove(volume)
    _remove(top)


def _bind(source: int, place: Path) -> None:
    told = os.fstat(source)
    if mounts.is_mount_point(place):
        if _is_same(told, place):
            return
        mounts.unmount(place)
    _make_place(place, is_directory=stat.S_ISDIR(told.st_mode))
    try:
        mounts.bind(Path(f"/proc/self/fd/{source}"), place)
    except OSError:
        with contextlib.suppress(OSError):
            _remove(place)
        raise


def _is_same(told: os.stat_result, place: Path) -> bool:
    try:
        return os.path.samestat(told, place.lstat())
    except OSError:  # its file system no longer answers
        return False


def _make_place(place: Path, *, is_directory: bool) -> None:
    """Make what is mounted upon: a directory for a directory, an empty file for anything else."""
    for folder in (place.parents[2], place.parents[1], place.parent):
        folder.mkdir(mode=_FOLDER_MODE, exist_ok=True)
    if place.is_dir() is not is_directory:
        _remove(place)
    if is_directory:
        place.mkdir(mode=_FOLDER_MODE, exist_ok=True)
    else:
        place.touch(mode=_FILE_MODE)


def _remove(place: Path) -> None:
    """Remove an empty directory or a file; the kernel refuses it for a mount point."""
    with contextlib.suppress(FileNotFoundError):
        try:
            place.unlink()
        except IsADirectoryError:
            place.rmdir()


def _listed(folder: Path) -> list[Path]:
    """List a folder; what is none, or is a link, has nothing in it."""
    try:
        return [] if folder.is_symlink() else sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
