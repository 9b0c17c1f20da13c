"""`tempolet images`: usage of the image file system, removed images and why, images to be prepulled.

Usage is read from the node's files, the rest by a query of the node's workflow, which needs a worker.
"""

import asyncio
import json
from dataclasses import asdict
from datetime import datetime
from typing import Final

from proto.node_images import NodeImages, read_node_images
from proto.temporal.node import NodeStatus, PrepullFailure
from worker.commands.access.node_status import ask_node_status
from worker.daemon.config import NodeConfig
from worker.documents.printable import printable
from workflows.decide.node.image_collection import size_in_words

UNSEEN: Final = "images: not read by a worker yet"


def show(config: NodeConfig, *, output: str) -> None:
    """Print it; raises CommandFailed if the node has no workflow or no worker answers."""
    status, seen = asyncio.run(ask_node_status(config)), read_node_images(config.root_dir)
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
