"""Keeps an endpoint open while a process runs.

Used by all three processes. If the port is taken, it retries every five seconds, as the kubelet does for healthz: the previous
process may not have ended yet.
"""

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Final

import structlog

from worker.endpoints.server import Address, Endpoint, Route

TRY_AGAIN: Final = timedelta(seconds=5)

log = structlog.get_logger(__name__)

Opening = Callable[[], Endpoint]


def opener(address: Address, routes: Mapping[str, Route]) -> Opening:
    """Return a function that opens an endpoint; it raises OSError if the address is taken."""
    return lambda: Endpoint(address, routes).start()


async def keep_open(open_endpoint: Opening) -> None:
    """Keep an endpoint open until cancelled."""
    logged = ""
    while True:
        try:
            endpoint = open_endpoint()
            break
        except OSError as error:
            if str(error) != logged:
                logged = str(error)
                log.warning("cannot listen, trying again", error=logged, seconds=TRY_AGAIN.total_seconds())
            await asyncio.sleep(TRY_AGAIN.total_seconds())
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.to_thread(endpoint.close)
