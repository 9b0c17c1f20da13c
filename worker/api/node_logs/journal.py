"""Reads the systemd journal with journalctl, which is killed on timeout or when the client disconnects."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from datetime import timedelta
from typing import Final

JOURNALCTL: Final = "journalctl"
WITHIN: Final = timedelta(seconds=30)
"""The kubelet's time limit of a query."""
AT_ONCE: Final = 4
_CHUNK: Final = 64 * 1024
_MOST_UNITS: Final = 4 * 2**20
"""Maximum bytes read of the list of units."""


class JournalAway(Exception):
    """There is no journal on this machine, or it cannot be read."""


async def known_units() -> frozenset[str]:
    """Return the units that have ever written to the journal; none without a journal."""
    listed = bytearray()
    try:
        async with contextlib.aclosing(output(["--field", "_SYSTEMD_UNIT"])) as chunks:
            async for chunk in chunks:
                listed += chunk
                if len(listed) > _MOST_UNITS:
                    break
    except (JournalAway, TimeoutError):
        return frozenset()
    return frozenset(listed.decode("utf-8", "replace").split())


async def output(arguments: Sequence[str]) -> AsyncGenerator[bytes, None]:
    """Yield the output of journalctl, including errors; raises JournalAway, TimeoutError. Closing it kills the program."""
    try:
        process = await asyncio.create_subprocess_exec(
            JOURNALCTL,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
    except OSError as error:
        raise JournalAway(f"{JOURNALCTL}: {error.strerror}") from error
    assert process.stdout is not None
    try:
        until = asyncio.get_running_loop().time() + WITHIN.total_seconds()
        while True:
            async with asyncio.timeout_at(until):
                chunk = await process.stdout.read(_CHUNK)
            if not chunk:
                return
            yield chunk
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        # not wait(): it waits for the pipe's end, which is never read while the client is slow
        await process.communicate()
