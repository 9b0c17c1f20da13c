"""Runs in a guest: connects whoever asks with the network of the guest, by HTTP's CONNECT.

The API server of this machine asks it for the node's API and for pods' addresses (`way_in`): QEMU's user network forwards a port to the
guest's own address only. It has the standard library only, and is started by `systemd-run`.
"""

import asyncio
import contextlib
import sys

HEAD_LIMIT = 8 << 10
PART = 64 << 10
OK = b"HTTP/1.1 200 Connection established\r\n\r\n"
BAD_GATEWAY = b"HTTP/1.1 502 Bad Gateway\r\n\r\n"


async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve one connection: to where its head says, until both sides have ended."""
    with contextlib.closing(writer), contextlib.suppress(OSError, ValueError, asyncio.IncompleteReadError):
        head = await reader.readuntil(b"\r\n\r\n")
        host, _, port = head.split(b" ", 2)[1].decode().rpartition(":")
        try:
            there, to_there = await asyncio.open_connection(host.strip("[]"), int(port))
        except OSError:
            writer.write(BAD_GATEWAY)
            await writer.drain()
            return
        with contextlib.closing(to_there):
            writer.write(OK)
            await asyncio.gather(_pump(reader, to_there), _pump(there, writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on what comes, and its end."""
    with contextlib.suppress(OSError):
        while part := await reader.read(PART):
            writer.write(part)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()


async def main(port: int) -> None:
    """Serve a port for ever."""
    server = await asyncio.start_server(connect, "0.0.0.0", port, limit=HEAD_LIMIT)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
