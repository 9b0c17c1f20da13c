"""Refuses to host a node's workflows while another machine does: two nodes of one name would run each other's pods.

Looked at before a worker begins. Temporal lists who has polled the node's queue within the last minutes, by identity, which has
a mark of the machine (`worker/daemon/node_client.py`). A worker polls at least once a minute. So another machine's that has
not polled for a while is gone, and this machine takes its place; one that polls again is alive. Only what Temporal says is
compared with what it said before, so the clocks of server and node do not matter.
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import structlog
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.service import RPCError

from proto.temporal.names import node_task_queue
from worker.temporal.connect_errors import PASSING

GONE_AFTER: Final = timedelta(seconds=90)
"""Longer than any worker's poll: Temporal answers one after a minute at the latest."""
LOOK_EVERY: Final = timedelta(seconds=10)
_CALL_LIMIT: Final = timedelta(seconds=10)
_MACHINE: Final = re.compile(r"[^/]+/(?P<node>.+)/[^/]*/m(?P<machine>[0-9a-f]{8})-[^/]*(?:/\d+)?")

_log: Final = structlog.get_logger(__name__)


@dataclass(slots=True)
class Watch:
    """What was seen of other machines' workers; times are seconds of one monotonic clock."""

    own: str
    """The identity of this worker."""
    _seen: dict[str, tuple[int, float]] = field(default_factory=dict)
    """By identity: its last poll by the server's clock, in nanoseconds, and when it was first seen here."""
    _alive: set[str] = field(default_factory=set)

    def look(self, pollers: Mapping[str, int], now: float) -> tuple[list[str], list[str]]:
        """Take the last poll of each identity; returns those that are alive, and those that may be."""
        others = {one: at for one, at in pollers.items() if _is_other(one, self.own)}
        for identity, polled in others.items():
            before = self._seen.get(identity)
            if before is None or before[0] != polled:
                self._seen[identity] = (polled, now)
                if before is not None:
                    self._alive.add(identity)
            elif now - before[1] >= GONE_AFTER.total_seconds():
                self._alive.discard(identity)
        present = [one for one in sorted(others) if now - self._seen[one][1] < GONE_AFTER.total_seconds()]
        return [one for one in present if one in self._alive], [one for one in present if one not in self._alive]


def machine_of(identity: str) -> str:
    """Return the mark of a worker's machine; empty if the identity has none, as those of earlier releases."""
    found = _MACHINE.fullmatch(identity)
    return found["machine"] if found else ""


async def until_alone(
    client: Client, node: str, *, waits: Callable[[str], None], refused: Callable[[str], None]
) -> None:
    """Wait until no other machine hosts this node; raises RPCError if Temporal does not answer.

    Each look tells that it `waits`, or, once another machine is known to be alive, is `refused`.
    """
    watch, clock = Watch(client.identity), asyncio.get_running_loop().time
    while True:
        alive, perhaps = watch.look(await pollers(client, node), clock())
        if alive:
            refused(
                f"another machine hosts node {node} in namespace {client.namespace}, as {alive[0]}: stop it there, or "
                "give one of both another --hostname-override"
            )
        elif perhaps:
            waits(f"waiting until it is known whether {perhaps[0]} of another machine still hosts node {node}")
        else:
            return
        await asyncio.sleep(LOOK_EVERY.total_seconds())


async def pollers(client: Client, node: str) -> dict[str, int]:
    """Return the last poll of each identity that Temporal lists for the node's queue."""
    request = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=node_task_queue(node)),
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
    )
    try:
        found = await client.workflow_service.describe_task_queue(request, timeout=_CALL_LIMIT)
    except RPCError as error:
        if error.status in PASSING:
            raise
        _log.warning("who else hosts this node cannot be found out; going on", err=error.message)
        return {}
    return {one.identity: one.last_access_time.ToNanoseconds() for one in found.pollers}


def _is_other(identity: str, own: str) -> bool:
    machine = machine_of(identity)
    return bool(machine) and machine != machine_of(own)
