"""Opens TCP connections for probes; errors have the words of Go's net package, which operators search for.

Used by tcpSocket and httpGet. A bare socket costs a third of one with asyncio's transport, and a node opens hundreds a
second.
"""

import asyncio
import errno
import os
import socket
from ipaddress import ip_address
from typing import Any

from activities.probes.outcome import address


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
    """Look a name up in a thread; an address needs no look-up."""
    try:
        numeric = ip_address(host)
    except ValueError:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [(one[0], one[4]) for one in found]
    if numeric.version == 6:
        return [(socket.AF_INET6, (host, port, 0, 0))]
    return [(socket.AF_INET, (host, port))]
