"""What the kernel does for the gateway: a network namespace with loopback only, and an end together with the parent.

Blocks; called once, before any other thread starts, because a namespace is a thread's and is inherited by later ones.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import signal
import socket
import struct
from pathlib import Path
from typing import Final

CLONE_NEWNET: Final = 0x40000000  # unshare(2)
PR_SET_PDEATHSIG: Final = 1  # prctl(2)
SIOCSIFFLAGS: Final = 0x8914  # netdevice(7)
IFF_UP_RUNNING: Final = 0x1 | 0x40

_libc: Final = ctypes.CDLL(None, use_errno=True)


def enter_own_network() -> None:
    """Enter a new network namespace, in which loopback is up; raises OSError without CAP_SYS_ADMIN.

    Unix sockets with a path and sockets made before stay usable: both belong to where they were made.
    """
    if _libc.unshare(CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        why = " (it needs CAP_SYS_ADMIN)" if number == errno.EPERM else ""
        raise OSError(number, f"no network namespace for Temporal: {os.strerror(number)}{why}")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP_RUNNING))


def end_with_parent(parent: int) -> None:
    """Let the kernel kill this process when `parent`, which started it, ends; called between fork and exec."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the kernel knew
        os.kill(os.getpid(), signal.SIGKILL)


def hold_alone(path: Path) -> int:
    """Take a lock that children inherit, waiting for an earlier Temporal that is being killed; returns its descriptor."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def listen_at_path(path: Path) -> socket.socket:
    """Listen on a unix socket that only root can connect to; one left by a killed process is replaced."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
    finally:
        os.umask(before)
    listener.listen(128)
    return listener


def listen_on_loopback(port: int) -> socket.socket:
    """Listen on a port of 127.0.0.1 of this network; raises OSError naming the port if it is taken."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as error:
        raise OSError(error.errno, f"port {port} on 127.0.0.1: {error.strerror}") from error
    listener.listen(64)
    return listener
