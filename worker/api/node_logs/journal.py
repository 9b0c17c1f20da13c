"""The journal of services, through journalctl: a program that is stopped when its time is over or its reader has gone."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from datetime import timedelta
from typing import Final

JOURNALCTL: Final = "journalctl"
WITHIN: Final = timedelta(seconds=30)
"""The kubelet's limit of a query."""
AT_ONCE: Final = 4
_CHUNK: Final = 64 * 1024
_MOST_UNITS: Final = 4 * 2**20
"""Bytes of the list of units that are read."""


class JournalAway(Exception):
    """There is no journal on this machine, or it can't be read."""


async def known_units() -> frozenset[str]:
    """Give the units that have ever written to the journal; none where there is no journal."""
    said = bytearray()
    try:
        async with contextlib.aclosing(output(["--field", "_SYSTEMD_UNIT"])) as chunks:
            async for chunk in chunks:
                said += chunk
                if len(said) > _MOST_UNITS:
                    break
    except (JournalAway, TimeoutError):
        return frozenset()
    return frozenset(said.decode("utf-8", "replace").split())


async def output(arguments: Sequence[str]) -> AsyncGenerator[bytes, None]:
    """Give what journalctl writes, errors among it; raises JournalAway, TimeoutError. Close it to stop the program."""
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
        # not wait(): that waits for the end of the pipe, which nobody sees while its reader is behind
        await process.communicate()
