"""The events of the node itself: started, ready or not, under pressure, cordoned, rebooted."""

from collections.abc import Callable, Sequence
from typing import Final

import structlog

from worker.events.event import node_reference
from worker.node.object.conditions import NodeEvent
from worker.node.process.dependencies import Around

STARTED: Final = NodeEvent("Starting", "Starting kubelet.")
"""In the kubelet's words (BirthCry): what looks for a restarted node looks for these."""

log = structlog.get_logger(__name__)


async def send_events(around: Around) -> None:
    """Send what was recorded, for ever."""
    tell(around)([STARTED])
    await around.recorder.send()


def tell(around: Around) -> Callable[[Sequence[NodeEvent]], None]:
    """Give who is told of what has happened to the node; it never waits."""
    name = around.config.node_name

    def told(events: Sequence[NodeEvent]) -> None:
        for one in events:
            message = one.message or f"Node {name} status is now: {one.reason}"
            log.info("node event", reason=one.reason, message=message)
            around.recorder.record(node_reference(name), one.type, one.reason, message)

    return told
