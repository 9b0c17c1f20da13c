"""The server for the httpGet probes of single pods: it records when it gave which answer.

It runs in the benchmark's own process; probes reach it by their `host`, so no program in the pod's image is involved.
"""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Final, Self

HOST: Final = "127.0.0.1"
LONGEST: Final = 30.0
OK: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
NOT_YET: Final = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@dataclass(slots=True)
class ProbedServer:
    """Answers every path with success or failure according to `passing`; a context manager."""

    passing: bool
    port: int = 0
    _answered: dict[bool, "asyncio.Future[float]"] = field(default_factory=dict)
    _server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._answered = {verdict: loop.create_future() for verdict in (True, False)}
        self._server = await asyncio.start_server(self._answer, HOST, 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def turned(self, *, passing: bool) -> float:
        """Change the answer; returns when the first probe got it. Raises TimeoutError."""
        self.passing = passing
        return await asyncio.wait_for(self._answered[passing], LONGEST)

    async def asked(self) -> None:
        """Wait until a probe got the initial answer; raises TimeoutError."""
        await asyncio.wait_for(asyncio.shield(self._answered[self.passing]), LONGEST)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        verdict = self.passing
        at = time.time()
        writer.write(OK if verdict else NOT_YET)
        writer.close()
        if not self._answered[verdict].done():
            self._answered[verdict].set_result(at)
