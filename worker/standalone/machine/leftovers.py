"""Finds and removes what a node has left in the kernel: processes, mounts, cgroups.

Used after everything was stopped in order, so usually there is nothing left; it is the part of `tempolet down` that
works if containerd or the worker died first. It looks only below the instance's own folders, at its own socket's shims
and at the cgroup that it is given; whose that is, `owner_marks` knows.
"""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from activities.files import mounts
from worker.standalone.machine.process import wait_for_end

CGROUP_MOUNT: Final = Path("/sys/fs/cgroup")


def shims_of(containerd_socket: Path) -> list[int]:
    """Find the shims of this containerd by their command line."""
    wanted = str(containerd_socket).encode()
    found = []
    for pid, words in _command_lines():
        if b"containerd-shim" in words[0] and wanted in words[1:]:
            found.append(pid)
    return found


def kill_all(pids: list[int], within: float = 5) -> None:
    """Kill processes and wait until they are gone."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for pid in pids:
        wait_for_end(pid, within)


def processes_in_cgroup(cgroup: str) -> list[int]:
    """List every process in a cgroup and below it, in every hierarchy (v1 and v2)."""
    pids: set[int] = set()
    for top in cgroup_directories(cgroup):
        for directory in directories_below(top):
            with contextlib.suppress(OSError):
                pids.update(int(pid) for pid in (directory / "cgroup.procs").read_text().split())
    return sorted(pids)


def directories_below(top: Path) -> list[Path]:
    """List a directory and all below it, parents first; one that is removed meanwhile is no error."""
    return [Path(path) for path, _, _ in os.walk(top)]


def remove_cgroup(cgroup: str) -> list[str]:
    """Remove a cgroup and all below it from every hierarchy; returns those that could not be removed, with the reason."""
    stuck = []
    for top in cgroup_directories(cgroup):
        for directory in reversed(directories_below(top)):
            try:
                directory.rmdir()
            except FileNotFoundError:
                continue
            except OSError as error:
                stuck.append(f"{directory}: {error.strerror}")
    return stuck


def mounts_below(*directories: Path) -> list[str]:
    """List the mount points at or below folders, in the order in which to unmount them."""
    return [point for directory in directories for point in mounts.mounts_below(directory.resolve())]


def unmount_below(*directories: Path) -> int:
    """Unmount everything at or below folders; returns the number of mounts."""
    points = mounts_below(*directories)
    for point in points:
        with contextlib.suppress(OSError):  # what is left is reported later
            mounts.unmount(Path(point), detach=True)
    return len(points)


def cgroup_directories(cgroup: str) -> list[Path]:
    """Find a cgroup in the unified hierarchy or in each controller's own; never the root, "/"."""
    return [directory for directory in cgroup_places(cgroup) if directory.is_dir()]


def cgroup_places(cgroup: str) -> list[Path]:
    """Return where a cgroup is, or would be, in each hierarchy; nowhere if it is the root, "/"."""
    relative = cgroup.strip("/")
    if {"", ".", ".."} & set(relative.split("/")):
        return []
    if (CGROUP_MOUNT / "cgroup.controllers").exists():
        return [CGROUP_MOUNT / relative]
    return [mount / relative for mount in sorted(CGROUP_MOUNT.iterdir()) if mount.is_dir() and not mount.is_symlink()]


def _command_lines() -> Iterator[tuple[int, list[bytes]]]:
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            with contextlib.suppress(OSError):
                words = (directory / "cmdline").read_bytes().split(b"\0")
                yield int(directory.name), words
