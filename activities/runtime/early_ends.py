"""An end that comes right after a start, told with the start's own answer.

Asked by StartContainer of what is expected to end (`StartContainer.end_within`): by way of the event stream, a hint and a
re-read its end would come 40 ms later and cost eight events of history. Nothing is lost by not seeing it: that way stays.
"""

import asyncio
from datetime import timedelta
from typing import Final

from activities.clients.cri_error import CriError
from activities.clients.runtime import RuntimeClient
from proto.cri.v1 import api_pb2 as cri

FIRST_LOOK: Final = 0.012
"""Seconds after the start: the runtime tells the end of a program that does nothing 12 to 25 ms after it."""
NEXT_LOOK: Final = 1.1
"""Times as long after the start as the look before: an end is seen late by a tenth of its time, after some 25 looks at most."""


async def end_or_status(runtime: RuntimeClient, status: cri.ContainerStatus, within: timedelta) -> cri.ContainerStatus:
    """Look at a container that runs until it has ended, `within` this time; answers its newest status, raises nothing."""
    clock = asyncio.get_running_loop().time
    begun, look_at = clock(), FIRST_LOOK
    while status.state == cri.ContainerState.CONTAINER_RUNNING and look_at <= within.total_seconds():
        await asyncio.sleep(begun + look_at - clock())
        try:
            status = await runtime.container_status(status.id)
        except CriError:  # it has started all the same, and what became of it is found as of any other
            return status
        look_at = max(look_at, clock() - begun) * NEXT_LOOK
    return status
