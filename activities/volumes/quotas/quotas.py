"""The quota of one folder: assigned, read and given back (pkg/volume/util/fsquota/quota_linux.go).

What is assigned is written down nowhere but in /etc/projects and in the file system, so every step may run again, late or after
half of it. Everything here blocks on files.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from activities.files.disk_use import Count
from activities.files.tree_walk import walk_tree
from activities.volumes.quotas import kernel
from activities.volumes.quotas.locked_files import locked_files, read_files
from activities.volumes.quotas.project_files import NONE

FILES: Final = Path("/etc")
"""The folder of `projects` and `projid`."""
_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def assign_quota(folder: Path, *, limited: bool) -> None:
    """Count a folder by a project of its own, where its file system can do that; raises OSError (AssignQuota).

    Folders beside it that are gone are taken out of the files: a killed process, or the removal of an orphaned pod, leaves them.
    """
    with _opened(folder) as opened:
        if not kernel.accounts(opened):
            return
        project = _listed_project(folder, opened)
        try:
            kernel.set_limit(opened, project, largest=limited)
            kernel.set_project(opened, project, folder=True)
            _give_content(folder, project)
        except OSError:
            _unlist(folder)
            raise


def clear_quota(folder: Path) -> None:
    """Give back a folder's project, before the folder is removed; raises OSError (ClearQuota).

    Its files keep the id until they are removed, and no other folder gets it as long as they do.
    """
    project = read_files(FILES).id_of(str(folder))
    if project == NONE:
        return
    with suppress(OSError), _opened(folder) as opened:  # the id is given back nevertheless, as in the kubelet
        if kernel.project_of(opened) == project:
            kernel.set_limit(opened, project, largest=False)
    _unlist(folder)


def quota_use(folder: Path) -> Count | None:
    """Return what a folder takes by its quota; None if it has none, or if it cannot be read: then files are counted."""
    try:
        files = read_files(FILES)
        project = files.id_of(str(folder))
        if project == NONE or len(files.folders_of(project)) > 1:
            return None
        with _opened(folder) as opened:
            return kernel.use_of(opened, project) if kernel.project_of(opened) == project else None
    except OSError:
        return None


def _listed_project(folder: Path, opened: int) -> int:
    """Return the folder's id in the files, a new one if it has none."""
    with locked_files(FILES) as locked:
        files = locked.files.without(_gone(locked.files.folders(), folder))
        project = files.id_of(str(folder))
        if project == NONE:
            project = files.unused(lambda one: any(kernel.use_of(opened, one)))
            files = files.adding(str(folder), project)
        locked.write(files)
    return project


def _gone(listed: list[str], folder: Path) -> set[str]:
    """Return the listed folders of volumes of this kind, `<pods>/<uid>/volumes/<plugin>/<name>`, that are gone."""
    pods, kind = folder.parents[3], folder.parts[-3:-1]
    candidates = (one for one in map(Path, listed) if len(one.parts) == len(folder.parts))
    ours = (one for one in candidates if one.parents[3] == pods and one.parts[-3:-1] == kind)
    return {str(one) for one in ours if not os.path.lexists(one)}


def _unlist(folder: Path) -> None:
    with locked_files(FILES) as locked:
        locked.write(locked.files.without({str(folder)}))


def _give_content(folder: Path, project: int) -> None:
    """Give what is in the folder to its project; new files belong to it already (xfs_quota's `project -s`)."""
    with closing(walk_tree(folder)) as visits:
        for visit in visits:
            is_folder = stat.S_ISDIR(visit.found.st_mode)
            if visit.is_foreign or not (is_folder or stat.S_ISREG(visit.found.st_mode)):
                continue
            with suppress(FileNotFoundError), _opened(visit.name, visit.parent) as opened:
                kernel.set_project(opened, project, folder=stat.S_ISDIR(os.fstat(opened).st_mode))


@contextmanager
def _opened(path: Path | str, parent: int | None = None) -> Iterator[int]:
    opened = os.open(path, _FLAGS, dir_fd=parent)
    try:
        yield opened
    finally:
        os.close(opened)
