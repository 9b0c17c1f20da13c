"""`tempolet images`: usage of the image file system, removed images and why, images to be prepulled.

Usage is read from the node's files, the rest by a query of the node's workflow, which needs a worker.
"""

import asyncio
import json
from dataclasses import asdict
from datetime import datetime
from typing import Final

from temporalio.client import WorkflowQueryRejectedError
from temporalio.service import RPCError, RPCStatusCode

from proto.node_images import NodeImages, read_node_images
from proto.temporal import names
from proto.temporal.node import NodeStatus, PrepullFailure
from worker.commands.access import temporal_access
from worker.commands.access.exits import CommandFailed, Exit
from worker.commands.access.led_pods import ask_pod
from worker.daemon.config import NodeConfig
from worker.delivery.lead import Message, Reply
from worker.documents.printable import printable
from workflows.decide.node.image_collection import size_in_words

UNSEEN: Final = "images: not read by a worker yet"


def show(config: NodeConfig, *, output: str) -> None:
    """Print it; raises CommandFailed if the node has no workflow or no worker answers."""
    status, seen = asyncio.run(_ask(config)), read_node_images(config.root_dir)
    if output == "json":
        print(json.dumps({**asdict(status), "seen": asdict(seen) if seen else None}, default=str, indent=2))
    else:
        print("\n".join(lines(status, seen)))


def lines(status: NodeStatus, seen: NodeImages | None) -> list[str]:
    """Format it as text, newest last."""
    if seen is None:
        said = [UNSEEN]
    else:
        at = datetime.fromisoformat(seen.at).astimezone()
        disk = f"{seen.used_percent} % of {size_in_words(seen.capacity_bytes)} used"
        said = [f"images: {seen.images}, disk: {disk}, at {at:%H:%M:%S}"]
    said += [f"FreeDiskSpaceFailed: {status.too_full}"] if status.too_full else []
    said += [f"to prepull: {image}{_failure(status.failures.get(image))}" for image in status.prepulling]
    said += [f"{one.at.astimezone():%Y-%m-%d %H:%M:%S}  {one.words}" for one in status.news]
    return [printable(line) for line in said]


def _failure(failure: PrepullFailure | None) -> str:
    """Say why an image is not pulled yet, and when it is tried again."""
    if failure is None:
        return ""
    again = (failure.at + failure.delay).astimezone()
    return f", failed at {failure.at.astimezone():%H:%M:%S}, next try at {again:%H:%M:%S}: {failure.reason}: {failure.message}"


async def _ask(config: NodeConfig) -> NodeStatus:
    message = Message(names.node_workflow_id(config.node_name), names.NODE_STATUS)
    answered = await ask_pod(
        config, message, lambda: _ask_workflow(config), lambda lead, said: lead.query(said, NodeStatus)
    )
    status = answered.value if isinstance(answered, Reply) else answered
    if not isinstance(status, NodeStatus):
        raise CommandFailed(f"the worker of node {config.node_name} cannot tell of the images")
    return status


async def _ask_workflow(config: NodeConfig) -> NodeStatus:
    client = await temporal_access.client_of(config)
    handle = client.get_workflow_handle(names.node_workflow_id(config.node_name))
    try:
        async with asyncio.timeout(temporal_access.ANSWER_WITHIN.total_seconds()):
            status: NodeStatus = await handle.query(names.NODE_STATUS, result_type=NodeStatus)
    except (TimeoutError, WorkflowQueryRejectedError) as error:
        raise temporal_access.NoAnswer(temporal_access.no_worker(config.node_name, error)) from error
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            raise CommandFailed(
                f"node {config.node_name} has no workflow, which its poller starts; is the node's name right "
                "(--hostname-override)?",
                Exit.NOT_FOUND,
            ) from error
        raise temporal_access.NoAnswer(temporal_access.no_worker(config.node_name, error)) from error
    return status
