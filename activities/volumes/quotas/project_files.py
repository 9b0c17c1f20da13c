"""The lines of /etc/projects and /etc/projid: which folder has which project id (pure; pkg/volume/util/fsquota/project.go).

Lines of others are kept as they are. Ids and names are the kubelet's, so that both may write these files on one machine.
"""

import re
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from typing import Final

FIRST: Final = 1048577
"""The first id that is given (FirstQuota)."""
NONE: Final = 0
"""The id of files that belong to no project (BadQuotaID)."""
_MOST_TRIED: Final = 129
"""Ids in use by files, though no line has them, before giving up (maxUnusedQuotasToSearch and one)."""
_PROJECT: Final = re.compile(r"([0-9]+):(.*)")
_NAME: Final = re.compile(r"([^#][^:]*):([0-9]+)")


class NoProjectLeft(OSError):
    """Every id that was tried is in use on the file system."""


@dataclass(frozen=True, slots=True)
class ProjectFiles:
    """The lines of both files."""

    projects: tuple[str, ...] = ()
    """`<id>:<folder>`."""
    names: tuple[str, ...] = ()
    """`<name>:<id>`."""

    def id_of(self, folder: str) -> int:
        """Return a folder's id; NONE if it has none."""
        return next((number for number, path in self._listed() if path == folder), NONE)

    def folders_of(self, project: int) -> list[str]:
        """Return the folders of an id."""
        return [path for number, path in self._listed() if number == project]

    def folders(self) -> list[str]:
        """Return all folders."""
        return [path for _, path in self._listed()]

    def unused(self, is_in_use: Callable[[int], bool]) -> int:
        """Return the first id that neither a line nor a file has; raises NoProjectLeft (findAvailableQuota)."""
        taken = {number for number, _ in self._listed()} | {number for _, number in self._named()}
        number = FIRST
        for _ in range(_MOST_TRIED):
            while number in taken:
                number += 1
            if not is_in_use(number):
                return number
            number += 1
        raise NoProjectLeft("cannot find available quota ID")

    def adding(self, folder: str, project: int) -> "ProjectFiles":
        """Return the files with a folder that they do not have, and an id that they do not have (addDirToProject)."""
        return ProjectFiles((*self.projects, f"{project}:{folder}"), (*self.names, f"{_name(project)}:{project}"))

    def without(self, folders: Set[str]) -> "ProjectFiles":
        """Return the files without these folders, and without ids that have no other (removeDirFromProject).

        A name of ours without a folder goes, too: the names are written first, and the writer may have been killed.
        """
        kept = tuple(line for line in self.projects if _folder(line) not in folders)
        rest = ProjectFiles(kept)
        lost = {number for number, path in self._listed() if path in folders and not rest.folders_of(number)}
        lost |= {number for name, number in self._named() if name == _name(number) and not rest.folders_of(number)}
        return ProjectFiles(kept, tuple(line for line in self.names if _named_id(line) not in lost))

    def _listed(self) -> Iterator[tuple[int, str]]:
        for line in self.projects:
            if found := _PROJECT.fullmatch(line):
                yield int(found[1]), found[2]

    def _named(self) -> Iterator[tuple[str, int]]:
        for line in self.names:
            if found := _NAME.fullmatch(line):
                yield found[1], int(found[2])


def parse(projects: str, names: str) -> ProjectFiles:
    """Split both files into lines."""
    return ProjectFiles(_lines(projects), _lines(names))


def written(lines: tuple[str, ...]) -> str:
    """Return a file's content."""
    return "".join(f"{line}\n" for line in lines)


def _lines(text: str) -> tuple[str, ...]:
    """Split as the kubelet does: a line feed ends a line, with a carriage return or without, and nothing else does."""
    return tuple(line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")) if text else ()


def _name(project: int) -> str:
    return f"volume{project}"


def _folder(line: str) -> str | None:
    found = _PROJECT.fullmatch(line)
    return found[2] if found else None


def _named_id(line: str) -> int | None:
    found = _NAME.fullmatch(line)
    return int(found[2]) if found else None
