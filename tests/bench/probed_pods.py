"""The server for probes of pods: httpGet, tcpSocket and grpc at each pod's own IP, from one process outside them.

Its listening sockets are in the pods' network namespaces, so a probe takes the whole path to a pod, and the cost of answering
falls on a process that is not measured. The image has no gRPC server, and 330 servers in 110 pods would take up the machine.

`python -m tests.bench.probed_pods` reads lines: `enter PID...` opens the ports in the namespaces of those processes,
`count` prints as JSON how many probes were answered so far, by kind; each line gets one line of output.
"""

import asyncio
import contextlib
import ctypes
import json
import os
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

import grpc
import grpc.aio

HTTP_PORT: Final = 8080
TCP_PORT: Final = 8081
GRPC_PORT: Final = 8082
CLONE_NEWNET: Final = 0x40000000  # setns(2); os.setns comes with Python 3.12
SERVING: Final = b"\x08\x01"
OK: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


class ProbedPods:
    """The server as a separate process; a context manager."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        command = (sys.executable, "-m", "tests.bench.probed_pods")
        self._process = await asyncio.create_subprocess_exec(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.kill()
        await self._process.wait()

    async def enter(self, pids: Sequence[int]) -> None:
        """Serve in the pods of these processes from now on; raises OSError."""
        await self._ask(f"enter {' '.join(map(str, pids))}")

    async def answered(self) -> Mapping[str, int]:
        """Return the number of probes answered so far, by kind; raises OSError."""
        counted: Mapping[str, int] = await self._ask("count")
        return counted

    async def _ask(self, line: str) -> Any:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line.encode() + b"\n")
        answer = await self._process.stdout.readline()
        if not answer:
            raise OSError(f"the probed server ended at {line.partition(' ')[0]!r}")
        return json.loads(answer)


class _Answering:
    """The servers inside that process."""

    def __init__(self) -> None:
        self.answered: Counter[str] = Counter()
        self._servers: list[asyncio.Server] = []
        self._health: list[grpc.aio.Server] = []

    async def obey(self) -> None:
        """Execute line by line until the input ends."""
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            match line.split():
                case ["enter", *pids]:
                    await self._enter([int(pid) for pid in pids])
                case _:
                    pass
            print(json.dumps(self.answered), flush=True)

    async def _enter(self, pids: Sequence[int]) -> None:
        health = grpc.aio.server()
        health.add_generic_rpc_handlers((self._health_handler(),))
        for pid in pids:
            with _network_of(pid):  # a socket stays in the namespace in which it was created
                http, tcp = (socket.create_server(("0.0.0.0", port)) for port in (HTTP_PORT, TCP_PORT))
                health.add_insecure_port(f"0.0.0.0:{GRPC_PORT}")
            self._servers += [
                await asyncio.start_server(self._http, sock=http),
                await asyncio.start_server(self._tcp, sock=tcp),
            ]
        await health.start()
        self._health.append(health)

    async def _http(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            self.answered["httpGet"] += 1
            writer.write(OK)
        writer.close()

    async def _tcp(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.answered["tcpSocket"] += 1
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()

    def _health_handler(self) -> "grpc.GenericRpcHandler[bytes, bytes]":
        async def check(_: bytes, __: Any) -> bytes:
            self.answered["grpc"] += 1
            return SERVING

        methods = {"Check": grpc.unary_unary_rpc_method_handler(check)}
        handler: grpc.GenericRpcHandler[bytes, bytes] = grpc.method_handlers_generic_handler(
            "grpc.health.v1.Health", methods
        )
        return handler


@contextlib.contextmanager
def _network_of(pid: int) -> Iterator[None]:
    """Switch this thread to the network namespace of a process."""
    with Path("/proc/self/ns/net").open() as own, Path(f"/proc/{pid}/ns/net").open() as other:
        _setns(other.fileno())
        try:
            yield
        finally:
            _setns(own.fileno())


def _setns(descriptor: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    asyncio.run(_Answering().obey())
