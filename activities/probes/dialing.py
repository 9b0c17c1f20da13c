"""Opens TCP connections for probes; errors have the words of Go's net package, which operators search for.

Used by tcpSocket and httpGet. A bare socket costs a third of one with asyncio's transport, and a node opens hundreds a
second. Names are looked up in threads of their own, one for each name at a time: whoever runs the name server decides
how long an answer takes, and the event loop's threads work on files.
"""

import asyncio
import errno
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from ipaddress import ip_address
from typing import Any, Final
from weakref import WeakKeyDictionary

from activities.probes.outcome import address

_MOST_LOOKUPS: Final = 64
_Found = list[tuple[Any, ...]]
_lookups: "WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, asyncio.Future[_Found]]]" = WeakKeyDictionary()
"""The names that are being looked up."""


async def dial(host: str, port: int) -> socket.socket:
    """Connect; the caller closes the socket. Raises OSError, with the last address's reason if a name has several."""
    loop = asyncio.get_running_loop()
    failed: OSError = OSError(f"no address for {host}")
    for family, where in await _addresses(loop, host, port):
        connection = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            if not _is_through(connection, where):
                await loop.sock_connect(connection, where)
        except OSError as error:
            connection.close()
            failed = error
        except BaseException:
            connection.close()
            raise
        else:
            return connection
    raise failed


def _is_through(connection: socket.socket, where: Any) -> bool:
    """Start to connect and check at once: on this node the connection is made by then.

    Raises OSError. Waiting would cost two more system calls and a turn of the event loop, a third of a probe.
    """
    code = connection.connect_ex(where)
    if code == errno.EINPROGRESS:
        code = connection.connect_ex(where)
    if code in (errno.EINPROGRESS, errno.EALREADY):
        return False
    if code not in (0, errno.EISCONN):
        raise OSError(code, os.strerror(code))
    return True


def refusal_reason(host: str, port: int, error: OSError) -> str:
    """Describe why a connection failed."""
    if isinstance(error, socket.gaierror):
        return f"dial tcp: lookup {host}: {error.strerror}"
    why = os.strerror(error.errno).lower() if error.errno else str(error)
    return f"dial tcp {address(host, port)}: connect: {why}"


async def _addresses(loop: asyncio.AbstractEventLoop, host: str, port: int) -> list[tuple[int, Any]]:
    """Look a name up; an address needs no look-up."""
    try:
        numeric = ip_address(host)
    except ValueError:
        return [(one[0], (one[4][0], port, *one[4][2:])) for one in await _looked_up(loop, host)]
    if numeric.version == 6:
        return [(socket.AF_INET6, (host, port, 0, 0))]
    return [(socket.AF_INET, (host, port))]


async def _looked_up(loop: asyncio.AbstractEventLoop, host: str) -> _Found:
    """Look a name up, together with all others who wait for it; raises OSError."""
    under_way = _lookups.setdefault(loop, {})
    if (found := under_way.get(host)) is None:
        found = under_way[host] = loop.run_in_executor(_threads(), _look_up, host)
        found.add_done_callback(lambda done: (under_way.pop(host, None), done.cancelled() or done.exception()))
    return await asyncio.shield(found)


def _look_up(host: str) -> _Found:
    try:
        return socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(f"lookup {host}: no such host") from error


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_MOST_LOOKUPS, thread_name_prefix="names")
