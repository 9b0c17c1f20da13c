"""The recorded lives of a node's own workflow, and how a test queries that workflow."""

import asyncio
from typing import Any, Final

from temporalio.client import WorkflowQueryFailedError
from temporalio.service import RPCError

from proto.temporal import names
from proto.temporal.hardware.ledger import Admit
from proto.temporal.node import NodeStatus
from tests.node.tempolet_node import BUSYBOX, TempoletNode
from worker.temporal.private_files import KeyFileRefused

Keys = dict[str, Any]

FULL: Final[Keys] = {"imageGCHighThresholdPercent": 1, "imageGCLowThresholdPercent": 0, "imageMinimumGCAge": "1ms"}
"""Any disk is fuller than that, and no removal gets below it."""
NEVER_FULL: Final[Keys] = {"imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99}
EVERY_SECOND: Final[Keys] = {"lookEvery": "1s"}


def status(node: TempoletNode) -> NodeStatus:
    """Query the status of the node's workflow, once it runs."""

    async def ask() -> NodeStatus | None:
        try:
            handle = (await node.client()).get_workflow_handle(names.node_workflow_id(node.name))
            answer: NodeStatus = await handle.query(names.NODE_STATUS, result_type=NodeStatus)
        except (KeyFileRefused, RPCError, WorkflowQueryFailedError):  # the last: it is still that of an earlier life
            return None
        return answer

    answer: NodeStatus = node.until(lambda: asyncio.run(ask()), "the node's workflow answers")
    return answer


def news(node: TempoletNode) -> list[str]:
    """Read what the node's workflow has done with images."""
    return [one.words for one in status(node).news]


def until_told(node: TempoletNode, words: str) -> None:
    """Wait until the node's workflow reports this of its images."""
    node.until(lambda: any(words in one for one in news(node)), f"told: {words}")


def images(node: TempoletNode) -> None:
    """Prepull an image that exists and one that does not, then free space until nothing is left to remove."""
    missing = "127.0.0.1:9/missing:1"
    status(node)
    configure(node, NEVER_FULL, {"prepull": [BUSYBOX, missing], **EVERY_SECOND})
    node.until(lambda: status(node).prepulling == (missing,), "only the missing one left")
    configure(node, FULL, {"prepull": [BUSYBOX], **EVERY_SECOND})
    until_told(node, "removed: the disk is")
    until_told(node, "FreeDiskSpaceFailed")


def hardware(node: TempoletNode) -> None:
    """Two pods ask at once, then the first asks again."""
    status(node)

    async def ask(*uids: str) -> None:
        handle = (await node.client()).get_workflow_handle(names.node_workflow_id(node.name))
        await asyncio.gather(*(handle.execute_update(names.ADMIT, Admit(pod(one), ("a", "b"))) for one in uids))

    asyncio.run(ask("a", "b"))
    asyncio.run(ask("a"))


def pod(uid: str) -> dict[str, Any]:
    """Build a pod that asks for two CPUs of its own."""
    amounts = {"cpu": "2", "memory": "64Mi"}
    container = {"name": "main", "resources": {"requests": amounts, "limits": amounts}}
    return {"metadata": {"namespace": "default", "name": uid, "uid": uid}, "spec": {"containers": [container]}}


def configure(node: TempoletNode, keys: Keys, images_keys: Keys) -> None:
    """Restart the poller with other keys."""
    node.stop("poller")
    node.keys, node.own_keys = keys, {"images": images_keys}
    node.write_configuration()
    node.start("poller")
