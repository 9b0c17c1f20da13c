"""Unix sockets of a process for root alone: metrics for the node process, messages to pods for the worker.

Only root on this machine can connect: the folder has mode 0700, the socket 0600, and `peer_uid` tells who is at the other end.
"""

import asyncio
import contextlib
import os
import socket
import stat
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final

LONGEST_LINE: Final = 64 * 1024
"""asyncio's own limit of what is read for one line."""
Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
_MODE: Final = 0o600
_CREDENTIALS: Final = struct.Struct("3i")
"""The kernel's struct ucred: pid, uid, gid."""


@contextlib.asynccontextmanager
async def serving(path: Path, answer: Answer, *, longest_line: int = LONGEST_LINE) -> AsyncIterator[None]:
    """Serve while the block runs: `answer` gets each connection, and closes it. Raises OSError."""

    async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.CancelledError):  # the process ends: asyncio would log it as a defect
            await answer(reader, writer)

    listening = bound(path)
    try:
        server = await asyncio.start_unix_server(answered, sock=listening, limit=longest_line)
    except BaseException:
        listening.close()
        raise
    try:
        yield
    finally:
        server.close()
        remove(path)


def bound(path: Path) -> socket.socket:
    """Bind the socket; a leftover of an earlier process is removed, because the node's lock proves that it is gone."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    remove(path)
    listening = socket.socket(socket.AF_UNIX)
    try:
        with short_name(path) as short:
            listening.bind(short)
        path.chmod(_MODE)
    except BaseException:
        listening.close()
        raise
    return listening


def remove(path: Path) -> None:
    """Remove a socket; anything else of that name stays."""
    with contextlib.suppress(OSError):
        if stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink()


async def connected(path: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to a socket; raises OSError."""
    connection = socket.socket(socket.AF_UNIX)
    connection.setblocking(False)  # noqa: FBT003 - the standard library's own
    try:
        with short_name(path) as short:
            await asyncio.get_running_loop().sock_connect(connection, short)
        return await asyncio.open_unix_connection(sock=connection)
    except BaseException:
        connection.close()
        raise


def peer_uid(writer: asyncio.StreamWriter) -> int:
    """Return the uid of the process that opened the other end; raises OSError."""
    options = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(options)
    return int(uid)


@contextlib.contextmanager
def short_name(path: Path) -> Iterator[str]:
    """Yield a short path to a socket through its folder's descriptor: a socket's path is limited to 107 characters."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
