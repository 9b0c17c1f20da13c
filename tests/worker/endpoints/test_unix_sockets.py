"""Do the sockets of a process end quietly?"""

import asyncio
import logging
from pathlib import Path

import pytest

from worker.endpoints.unix_sockets import connected, serving


def test_an_end_of_the_process_during_a_request_logs_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The client sees the end of the connection."""
    path = tmp_path / "socket"

    async def work() -> None:
        asked = asyncio.Event()

        async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                writer.close()

        async with serving(path, answer):
            _, writer = await connected(path)
            await asked.wait()
        writer.close()

    with caplog.at_level(logging.ERROR, "asyncio"):
        asyncio.run(work())
    assert caplog.messages == []
