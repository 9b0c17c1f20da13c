"""One worker and one poller per node: a lock file below the root directory, held while the process lives.

Taken by worker and poller first of all. The kernel releases a lock when its holder dies, even by kill -9, so a stale
file never prevents a start. The holder of the worker's lock may fail pending attempts of earlier workers, because no
other process can be working on them. Only root can open the files: an unprivileged user can neither hold nor forge a
lock.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import stat
import struct
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Final

LOCK_DIRECTORY: Final = "tempolet"
ROLES: Final = ("worker", "poller", "node")
"""The processes of a node."""
NAMES: Final = Path("/run/tempolet.names")
"""One file for the names of all nodes of this machine, in a folder where only root makes files."""
TRIES: Final = 3  # a reader (`lock_holder`) shares the lock for a moment
BETWEEN_TRIES: Final = timedelta(milliseconds=20)


class NodeLockHeld(RuntimeError):
    """Another process already does this job on this node."""


@contextlib.contextmanager
def hold_node_lock(root_dir: Path, role: str = "worker") -> Iterator[Path]:
    """Hold the lock of a role (worker, poller) while the block runs; yields the lock file's path.

    Raises NodeLockHeld, naming the holder's pid, if another process has it; PermissionError without root.
    """
    path = lock_path(root_dir, role)
    with hold_lock_file(path, role):
        yield path


@contextlib.contextmanager
def hold_lock_file(path: Path, role: str) -> Iterator[None]:
    """Hold any lock file (also the kubelet's `--lock-file`) while the block runs."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _take(descriptor, path, role)
        try:
            yield
        finally:
            os.ftruncate(descriptor, 0)  # the file stays: removing it would allow a third process to lock a new one
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def hold_node_name(role: str, node: str, temporal: str, names: Path = NAMES) -> Iterator[None]:
    """Hold a node's name in its Temporal namespace while the block runs, whatever the root directory.

    Two workers of one task queue would run each other's pods, two pollers would delete them; the file lock does not see
    processes with different root directories. It protects one machine only: the operator must give different names to
    different machines. `temporal` is address and namespace. Raises NodeLockHeld; PermissionError without root, or if
    others can write the file.
    """
    descriptor = os.open(names, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        _refuse_others_file(descriptor, names)
        try:
            # one byte of the file stands for one name, so nothing has to be removed afterwards
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _byte_of(f"{role} {node} {temporal}"))
        except OSError as error:
            if error.errno not in {errno.EAGAIN, errno.EACCES}:
                raise
            raise NodeLockHeld(
                f"another {role} on this machine already serves node {node} in Temporal {temporal}, with another --root-dir; "
                "stop it first, or give this one another --hostname-override"
            ) from error
        yield
    finally:
        os.close(descriptor)


def _refuse_others_file(descriptor: int, path: Path) -> None:
    facts = os.fstat(descriptor)
    if not stat.S_ISREG(facts.st_mode) or facts.st_uid not in {0, os.geteuid()} or facts.st_mode & 0o077:
        raise PermissionError(errno.EPERM, "not a file of root's with mode 0600: remove it", str(path))


def _byte_of(words: str) -> bytes:
    """Return the struct flock (fcntl(2)) of a write lock on the byte that stands for these words."""
    start = int.from_bytes(hashlib.sha256(words.encode()).digest()[:8], "big") >> 2  # off_t is signed
    return struct.pack("@hhqqi", fcntl.F_WRLCK, os.SEEK_SET, start, 1, 0)


def lock_path(root_dir: Path, role: str) -> Path:
    """Return the path of a role's lock file."""
    return root_dir / LOCK_DIRECTORY / f"{role}.lock"


def lock_holder(path: Path) -> int | None:
    """Return the pid that holds a lock file; None if there is none, or it has not written its pid yet."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _written_pid(descriptor)
    else:
        return None
    finally:
        os.close(descriptor)


def own_processes(root_dir: Path) -> list[int]:
    """List the processes of this node that run, this one first."""
    holders = (lock_holder(lock_path(root_dir, role)) for role in ROLES)
    return list(dict.fromkeys([os.getpid(), *(pid for pid in holders if pid)]))


def _take(descriptor: int, path: Path, role: str) -> None:
    for _ in range(TRIES):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
            return
        time.sleep(BETWEEN_TRIES.total_seconds())
    pid = _written_pid(descriptor)
    holder = f"pid {pid}" if pid else "another process"
    raise NodeLockHeld(
        f"the {role} process of this node is already running: {holder} holds {path}; stop it first, or give this one "
        "another --root-dir and another --hostname-override"
    )


def _written_pid(descriptor: int) -> int | None:
    text = os.pread(descriptor, 32, 0).strip()
    return int(text) if text.isdigit() else None
