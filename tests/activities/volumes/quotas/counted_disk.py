"""A stand-in for a file system with project quotas: it keeps the projects of files and the limits, and counts files."""

import errno
import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from activities.files.disk_use import Count
from activities.volumes.quotas import kernel, quotas


@dataclass
class CountedDisk:
    """The files below `root` have projects; the files of projects are in `etc`."""

    root: Path
    etc: Path
    projects: dict[int, int] = field(default_factory=dict)
    """By inode."""
    limits: dict[int, bool] = field(default_factory=dict)
    """Whether the largest one is set, by project."""
    fails: str = ""
    """The call that fails from now on."""
    has_quotas: bool = True

    def put(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the product's calls reach it, and give it a folder for its files."""
        self.etc.mkdir()
        monkeypatch.setattr(quotas, "FILES", self.etc)
        for name in ("accounts", "use_of", "set_limit", "project_of", "set_project"):
            monkeypatch.setattr(kernel, name, getattr(self, name))

    def accounts(self, _: int) -> bool:
        """Say whether it has quotas."""
        return self.has_quotas

    def use_of(self, _: int, project: int) -> Count:
        """Count a project's files."""
        self._may_fail("use_of")
        found = [one.lstat() for one in self.root.rglob("*")]
        owned = [one for one in found if self.projects.get(one.st_ino) == project]
        return Count(sum(one.st_blocks for one in owned) * 512, len(owned))

    def set_limit(self, _: int, project: int, *, largest: bool) -> None:
        """Keep it."""
        self._may_fail("set_limit")
        self.limits[project] = largest

    def project_of(self, file: int) -> int:
        """Look it up."""
        return self.projects.get(os.fstat(file).st_ino, 0)

    def set_project(self, file: int, project: int, *, folder: bool) -> None:
        """Keep it; `folder` must be what the file is."""
        self._may_fail("set_project")
        assert folder == os.path.isdir(f"/proc/self/fd/{file}")  # noqa: PTH112 -- a descriptor's
        self.projects[os.fstat(file).st_ino] = project

    def lines(self) -> tuple[str, str]:
        """Read the files of projects; without what is a comment."""
        projects, names = (
            file.read_text() if (file := self.etc / name).exists() else "" for name in ("projects", "projid")
        )
        return projects, names

    def _may_fail(self, call: str) -> None:
        if self.fails == call:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
