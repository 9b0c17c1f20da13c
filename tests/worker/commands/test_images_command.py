"""Does `tempolet images` show what the node's workflow knows, and what to do if no worker answers?"""

import json
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from temporalio import activity
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from proto.node_images import NodeImages, write_node_images
from proto.temporal import names
from proto.temporal.node import (
    DiskUse,
    NodeConfigured,
    NodeNews,
    NodeObserved,
    NodeStart,
    NodeStatus,
    PrepullFailure,
    PrepullImage,
    WatchImages,
)
from tests.worker.commands.test_reading_commands import Commands, tempolet
from tests.workflows.conftest import client
from worker.commands.access.exits import Exit
from worker.commands.show.images import lines
from workflows.decide.versions import CURRENT_NODE
from workflows.node import NodeWorkflow

__all__ = ["client", "tempolet"]  # fixtures of other files

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
NEWS = (NodeNews(NOW, "busybox:1 (1.0 MiB) removed: the disk is 91 % full\x1b[2J"),)


@activity.defn(name=names.WATCH_IMAGES)
async def watch_images(_: WatchImages) -> None:
    """Nothing is ever to be done."""
    await activity.wait_for_cancelled()


@activity.defn(name=names.PREPULL_IMAGE)
async def prepull_image(_: PrepullImage) -> None:
    """Last as long as a slow registry."""
    await activity.wait_for_cancelled()


@pytest.fixture
async def node(client: Client) -> AsyncIterator[str]:
    """Run a node's workflow with a status to show; yields the node's name."""
    name = f"n{uuid.uuid4().hex[:8]}"
    known = NodeObserved(disk=DiskUse(100 << 30, 9 << 30), seen_at=NOW, news=NEWS)
    async with Worker(
        client,
        task_queue=names.node_task_queue(name),
        workflows=[NodeWorkflow],
        activities=[watch_images, prepull_image],
        workflow_runner=UnsandboxedWorkflowRunner(),
    ):
        handle = await client.start_workflow(
            names.NODE_WORKFLOW,
            NodeStart(name, CURRENT_NODE, known),
            id=names.node_workflow_id(name),
            task_queue=names.node_task_queue(name),
            start_signal=names.NODE_CONFIGURED,
            start_signal_args=[NodeConfigured(prepull=("a:1",))],
        )
        yield name
        await handle.terminate()


async def test_what_is_known_is_told(node: str, tempolet: Commands, tmp_path: Path) -> None:
    """As text and as JSON; control characters in names cannot move the cursor."""
    write_node_images(tmp_path, NodeImages(7, 100 << 30, 91, NOW.isoformat()))
    words = ("images", "--hostname-override", node, "--root-dir", str(tmp_path))
    code, out, _ = await tempolet(*words)
    assert code == Exit.DONE
    first, prepull, news = out.splitlines()
    assert first.startswith("images: 7, disk: 91 % of 100.0 GiB used, at ")
    assert prepull == "to prepull: a:1"
    assert news.partition("  ")[2].startswith("busybox:1 (1.0 MiB) removed: the disk is 91 % full")
    assert "\x1b" not in out
    _, out, _ = await tempolet(*words, "-o", "json")
    assert json.loads(out)["prepulling"] == ["a:1"]
    assert json.loads(out)["seen"]["used_percent"] == 91


@pytest.mark.usefixtures("client")
async def test_a_node_that_was_never_here(tempolet: Commands) -> None:
    """Exit code 3, and who would start it."""
    code, _, err = await tempolet("images", "--hostname-override", "elsewhere")
    assert (code, "node elsewhere has no workflow, which its poller starts" in err) == (Exit.NOT_FOUND, True)


def test_what_is_not_prepulled_says_why_and_when_it_is_tried_again() -> None:
    """Nothing is added to an image that has not failed."""
    failures = {"gone:1": PrepullFailure("ErrImagePull", "gone:1: not found", NOW, timedelta(seconds=20))}
    status = NodeStatus(None, 0, "", ("gone:1", "next:1"), (), failures)
    failed, again = (one.astimezone().strftime("%H:%M:%S") for one in (NOW, NOW + timedelta(seconds=20)))
    assert lines(status, None)[1:] == [
        f"to prepull: gone:1, failed at {failed}, next try at {again}: ErrImagePull: gone:1: not found",
        "to prepull: next:1",
    ]


def test_what_cannot_be_mended_stands_above_the_news() -> None:
    """A disk that was not read yet does not show as 0 % full."""
    status = NodeStatus(None, 0, "no room", (), NEWS)
    assert lines(status, None)[:2] == ["images: not read by a worker yet", "FreeDiskSpaceFailed: no room"]
