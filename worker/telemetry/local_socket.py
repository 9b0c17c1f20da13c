"""Passes metrics of worker and poller to the node process: one socket for each below `<root-dir>/tempolet`, for root only.

Their HTTP addresses are not used, because an operator may choose, disable or restrict them. A client sends one line, the name
of a text, and receives the text, which ends with `# EOF`; without that line it is incomplete and discarded. There is no
authentication: only root on this machine can connect.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import Final

import structlog

from worker.endpoints.unix_sockets import connected, serving

END: Final = b"# EOF\n"
METRICS: Final = "metrics"
PROBES: Final = "probes"
TROUBLES: Final = "troubles"
_LONGEST_NAME: Final = 64
_PATIENCE: Final = timedelta(seconds=10)
"""Time limit for a client to read the text."""


log = structlog.get_logger(__name__)


class TextUnavailable(Exception):
    """A process did not send its text; the message says why."""


def socket_path(state_dir: Path, role: str) -> Path:
    """Return the socket path of a process (`worker`, `poller`)."""
    return state_dir / "metrics" / f"{role}.sock"


@contextlib.asynccontextmanager
async def serving_texts(path: Path, texts: Mapping[str, Callable[[], bytes]]) -> AsyncIterator[None]:
    """Serve texts while the block runs; each is rendered in a thread. Raises OSError."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, TimeoutError, ValueError):
            async with asyncio.timeout(_PATIENCE.total_seconds()):
                name = (await reader.readuntil(b"\n")).decode().strip()
                if text := texts.get(name):
                    writer.write(await asyncio.to_thread(text) + END)
                    await writer.drain()
        writer.close()

    async with serving(path, answer, longest_line=_LONGEST_NAME):
        yield


async def keep_serving_texts(path: Path, texts: Mapping[str, Callable[[], bytes]]) -> None:
    """Serve until cancelled; without a socket the process continues, because pods matter more than metrics."""
    try:
        async with serving_texts(path, texts):
            await asyncio.Event().wait()
    except OSError as error:
        log.warning("the node process will not get this process's metrics", socket=str(path), err=str(error))


async def fetch_text(path: Path, name: str, within: timedelta) -> str:
    """Fetch a text from a process; raises TextUnavailable if it does not answer in time."""
    try:
        async with asyncio.timeout(within.total_seconds()):
            return await _asked(path, name)
    except TimeoutError as error:
        raise TextUnavailable(f"{path}: no answer in {within.total_seconds():.0f} s") from error
    except OSError as error:
        raise TextUnavailable(f"{path}: {error.strerror or error}") from error


async def failing_loops(state_dir: Path, roles: Iterable[str], within: timedelta) -> tuple[str, ...]:
    """Ask processes for their loops that fail now; one that does not answer in time is left out."""

    async def ask(role: str) -> list[str]:
        try:
            text = await fetch_text(socket_path(state_dir, role), TROUBLES, within)
        except TextUnavailable:
            return []
        return [f"{role}: {line}" for line in text.splitlines()]

    return tuple(chain.from_iterable(await asyncio.gather(*map(ask, roles))))


async def _asked(path: Path, name: str) -> str:
    reader, writer = await connected(path)
    try:
        writer.write(f"{name}\n".encode())
        await writer.drain()
        text = await reader.read()
    finally:
        writer.close()
    if not text.endswith(END):
        raise TextUnavailable(f"{path}: the answer is incomplete")
    return text.removesuffix(END).decode()
