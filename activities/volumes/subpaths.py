"""Shows a container one path of a volume (`volumeMounts[].subPath`), safely against concurrent changes in the volume.

Used before a container is created, and when volumes are unmounted. The path is opened without leaving the volume
(`safe_open`), and the descriptor is bind-mounted to `pods/<uid>/volume-subpaths/<volume>/<container>/<index of the
mount>`, which no container can reach and which the runtime mounts. Paths, modes and messages are those of
pkg/volume/util/subpath/subpath_linux.go and kubelet_pods.go makeMounts: an error names the container and its mount,
and nothing on the node. Everything may block: call it in a thread.
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
    """A path of a volume cannot be mounted; the message is for the pod's status."""


@dataclass(frozen=True, slots=True)
class SubPath:
    """A path of a volume for one mount of a container."""

    pod_dir: Path
    container: str
    index: int
    """Index of the mount among the container's volumeMounts."""
    name: str
    """Name of the volume in the pod."""
    volume_path: Path
    """Root of the volume's files."""
    path: str = field(repr=False)
    """Relative to `volume_path`, from `path_of`."""

    @property
    def place(self) -> Path:
        """The path where it is bound."""
        volume, container = plain_name(self.name, "volume name"), plain_name(self.container, "container name")
        return self.pod_dir / FOLDER / volume / container / str(self.index)


def path_of(mount: Mapping[str, Any], variables: Mapping[str, str]) -> str:
    """Return the path of its volume that a volumeMount shows, empty for the whole volume; raises SubPathFailed.

    Errors show an expression unexpanded, because it may refer to a secret. Source: kubelet_pods.go makeMounts,
    pkg/kubelet/container/helpers.go ExpandContainerVolumeMounts.
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
    """Bind every path that a container mounts instead of a whole volume; returns the places by the index of the mount.

    For a path of an image the result is the path itself, which the runtime resolves.

    Raises SubPathFailed. A mount of a missing volume is reported by `volume_mounts`.
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
    """Bind a path of a volume to its place for the container and return the place; missing directories are made.

    An existing bind stays if it shows the same file, otherwise it is unmounted first. Raises SubPathFailed.
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
    """Unmount all subPaths of a pod and remove their places; missing ones are fine. Raises OSError.

    A busy place stays, with everything above it; nothing below a place is ever removed.
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
    status = os.fstat(source)
    if mounts.is_mount_point(place):
        if _is_same(status, place):
            return
        mounts.unmount(place)
    _make_place(place, is_directory=stat.S_ISDIR(status.st_mode))
    try:
        mounts.bind(Path(f"/proc/self/fd/{source}"), place)
    except OSError:
        with contextlib.suppress(OSError):
            _remove(place)
        raise


def _is_same(status: os.stat_result, place: Path) -> bool:
    try:
        return os.path.samestat(status, place.lstat())
    except OSError:  # its file system no longer answers
        return False


def _make_place(place: Path, *, is_directory: bool) -> None:
    """Make the mount point: a directory for a directory, an empty file for anything else."""
    for folder in (place.parents[2], place.parents[1], place.parent):
        folder.mkdir(mode=_FOLDER_MODE, exist_ok=True)
    if place.is_dir() is not is_directory:
        _remove(place)
    if is_directory:
        place.mkdir(mode=_FOLDER_MODE, exist_ok=True)
    else:
        place.touch(mode=_FILE_MODE)


def _remove(place: Path) -> None:
    """Remove an empty directory or a file; for a mount point the kernel refuses it."""
    with contextlib.suppress(FileNotFoundError):
        try:
            place.unlink()
        except IsADirectoryError:
            place.rmdir()


def _listed(folder: Path) -> list[Path]:
    """List a folder; anything else, links included, counts as empty."""
    try:
        return [] if folder.is_symlink() else sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
