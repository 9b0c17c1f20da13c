"""Waits for what a cluster does before an attachable volume may be mounted: it is listed as in use on this node, then attached.

Used for CSI volumes whose driver requires it, and for disks of iSCSI and Fibre Channel (reconciler_common.go waitForVolumeAttach). The
node process has to have told the API server first that the volume is in use: the attach/detach controller may detach one that is not,
while it is being mounted.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from activities.clients.api_server.errors import ApiAway, ApiRefused
from activities.clients.api_server.resources import NODES
from activities.execution.heartbeat import waiting_until
from activities.volumes.plugin.volume_type import NotAttached
from proto.volumes_in_use import reported_volumes

if TYPE_CHECKING:
    from activities.clients.api_server.api_server import ApiServer

ATTACHED_WITHIN: Final = timedelta(minutes=2)
"""Of one try to mount; the next try waits as long again."""
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 2.0
_Answer = TypeVar("_Answer")


async def wait_for(
    look: Callable[[], Awaitable[_Answer | None]], failure: Callable[[float], NotAttached], what: str
) -> _Answer:
    """Look with back-off until there is an answer; raises `failure` of so many seconds if there is none in time.

    `what` is what will hold then, for the heartbeats of the activity that waits.
    """
    seconds, pause = ATTACHED_WITHIN.total_seconds(), _FIRST_PAUSE
    try:
        async with asyncio.timeout(seconds):
            if (answer := await look()) is not None:
                return answer
            with waiting_until(what, at_once=True):
                while answer is None:
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, _LONGEST_PAUSE)
                    answer = await look()
            return answer
    except TimeoutError:
        raise failure(seconds) from None


async def wait_reported(root_dir: Path, name: str, node: str, *, shown: str) -> None:
    """Wait until the API server knows that a volume is in use on this node; raises NotAttached, which names it as `shown`."""

    async def look() -> bool | None:
        return name in await asyncio.to_thread(reported_volumes, root_dir) or None

    await wait_for(
        look,
        lambda seconds: NotAttached(f"{shown} is not marked in-use in the status of node {node} after {seconds:g} s"),
        f"{shown} is marked in-use in the status of node {node}",
    )


async def wait_in_node_status(api: "ApiServer", name: str, node: str, *, shown: str) -> None:
    """Wait until the Node lists a volume as attached, which the controller writes there; raises NotAttached.

    Source: operation_generator.go GenerateVerifyControllerAttachedVolumeFunc.
    """
    why = ""

    async def look() -> bool | None:
        nonlocal why
        try:
            status = (await api.get(NODES.path(node))).get("status") or {}
        except (ApiAway, ApiRefused) as error:
            why = f"failed fetching node from API server: {error}"
            return None
        why = "volume not attached according to node status"
        return any(one.get("name") == name for one in status.get("volumesAttached") or ()) or None

    await wait_for(
        look,
        lambda seconds: NotAttached(f"{shown} is not attached to node {node} after {seconds:g} s: {why}"),
        f"{shown} is attached to node {node} according to its status",
    )
