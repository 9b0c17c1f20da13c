"""Events of the node: started, ready or not, under pressure, cordoned, rebooted."""

from collections.abc import Callable, Sequence
from typing import Final

import structlog

from worker.events.event import node_reference
from worker.node.object.conditions import NodeEvent
from worker.node.process.dependencies import NodeDependencies

STARTED: Final = NodeEvent("Starting", "Starting kubelet.")
"""The kubelet's words (BirthCry), which tools use to detect a restarted node."""

log = structlog.get_logger(__name__)


async def send_events(deps: NodeDependencies) -> None:
    """Send recorded events until cancelled."""
    event_sender(deps)([STARTED])
    await deps.recorder.send()


def event_sender(deps: NodeDependencies) -> Callable[[Sequence[NodeEvent]], None]:
    """Return the function that records the node's events; it never blocks."""
    name = deps.config.node_name

    def send(events: Sequence[NodeEvent]) -> None:
        for one in events:
            message = one.message or f"Node {name} status is now: {one.reason}"
            log.info("node event", reason=one.reason, message=message)
            deps.recorder.record(node_reference(name), one.type, one.reason, message)

    return send
