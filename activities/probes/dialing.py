"""Open a TCP connection for a probe, and say why not in the words that operators search for (Go's net package's).

Used by the handlers of tcpSocket and httpGet. A socket without asyncio's transport costs a third of one with it, and a
node opens hundreds a second.
"""

import asyncio
import errno
import os
import socket
from ipaddress import ip_address
from typing import Any

from activities.probes.outcome import address


async def dial(host: str, port: int) -> socket.socket:
    """Connect; the caller closes. Raises OSError, with the last address's reason where a name has several."""
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
    """Begin to connect, and look again: to a pod of this node it is through by then, and nothing is to be waited for.

    Raises OSError. Waiting would cost two more calls and a turn of the event loop, a third of a probe.
    """
    code = connection.connect_ex(where)
    if code == errno.EINPROGRESS:
        code = connection.connect_ex(where)
    if code in (errno.EINPROGRESS, errno.EALREADY):
        return False
    if code not in (0, errno.EISCONN):
        raise OSError(code, os.strerror(code))
    return True


def refusal(host: str, port: int, error: OSError) -> str:
    """Say why a connection did not come to be."""
    if isinstance(error, socket.gaierror):
        return f"dial tcp: lookup {host}: {error.strerror}"
    why = os.strerror(error.errno).lower() if error.errno else str(error)
    return f"dial tcp {address(host, port)}: connect: {why}"


async def _addresses(loop: asyncio.AbstractEventLoop, host: str, port: int) -> list[tuple[int, Any]]:
    """Look a name up in a thread; an address needs no looking up."""
    try:
        numeric = ip_address(host)
    except ValueError:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [(one[0], one[4]) for one in found]
    if numeric.version == 6:
        return [(socket.AF_INET6, (host, port, 0, 0))]
    return [(socket.AF_INET, (host, port))]
