"""Does NodeWorkflow collect a node's images, add no events while there is nothing to do, and run for ever?"""

import asyncio
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from temporalio import activity
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.exceptions import ApplicationError
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner, Worker

from activities.execution.attempts import AttachingAttempts
from activities.execution.present_attempts import PresentAttempts
from activities.execution.running_actions import RunningActions
from proto.temporal import names
from proto.temporal.activities.requests import PulledImage
from proto.temporal.node import (
    DiskUse,
    ImageAge,
    ImagePolicy,
    ImageUse,
    NodeConfigured,
    NodeImage,
    NodeNews,
    NodeStart,
    NodeStatus,
    PrepullImage,
    RemovedImage,
    RemoveImage,
    WatchImages,
)
from proto.temporal.pod import PodStart
from proto.temporal.signals import PressureJudged
from tests.patience import PATIENCE
from tests.workflows.runs import run_of, until_another
from worker.host.pod_cache import publishing
from workflows.decide.versions import CURRENT_NODE, NODE_BEHAVIOURS
from workflows.extern import Decided
from workflows.loops.node_loop import NodeLoop
from workflows.node import NodeWorkflow

POLICY = ImagePolicy(look_every=timedelta(milliseconds=100))


@dataclass
class Images:
    """A disk of 100 bytes in memory; each image has a size."""

    sizes: dict[str, int] = field(default_factory=dict)
    watches: list[WatchImages] = field(default_factory=list)
    refuse: set[str] = field(default_factory=set)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    @activity.defn(name=names.WATCH_IMAGES)
    async def watch_images(self, request: WatchImages) -> ImageUse:
        """Return when the disk is too full and an image can be removed."""
        self.watches.append(request)
        async with self.changed:
            self.changed.notify_all()
            await self.changed.wait_for(lambda: sum(self.sizes.values()) >= request.policy.high_threshold_percent)
        now = datetime.now(UTC)
        age = now - timedelta(hours=1)
        images = tuple(NodeImage(one, (f"{one}:1",), size, ImageAge(one, age)) for one, size in self.sizes.items())
        return ImageUse(now, DiskUse(100, 100 - sum(self.sizes.values())), images)

    @activity.defn(name=names.REMOVE_IMAGE)
    async def remove_image(self, request: RemoveImage) -> RemovedImage:
        """Remove an image; one of them is refused once."""
        if request.image_id in self.refuse:
            self.refuse.remove(request.image_id)
            raise ApplicationError("busy", type="ImageGCFailed", non_retryable=True)
        async with self.changed:
            del self.sizes[request.image_id]
            self.changed.notify_all()
        return RemovedImage()

    @activity.defn(name=names.PREPULL_IMAGE)
    async def prepull_image(self, request: PrepullImage) -> PulledImage:
        """Pull an image."""
        async with self.changed:
            self.sizes[request.image] = 1
            self.changed.notify_all()
        return PulledImage(request.image, size_bytes=1)

    async def until(self, holds: Any) -> None:
        """Wait until the images satisfy a condition."""
        async with asyncio.timeout(PATIENCE), self.changed:
            await self.changed.wait_for(holds)

    async def put(self, **sizes: int) -> None:
        """Add images."""
        async with self.changed:
            self.sizes |= sizes
            self.changed.notify_all()


@dataclass
class Host:
    """What a test controls."""

    client: Client
    name: str
    images: Images
    behaviour: int = CURRENT_NODE

    async def configure(self, *prepull: str, policy: ImagePolicy = POLICY) -> WorkflowHandle[Any, Any]:
        """Start or signal the node's workflow as the poller does."""
        return await self.client.start_workflow(
            names.NODE_WORKFLOW,
            NodeStart(self.name, self.behaviour),
            id=names.node_workflow_id(self.name),
            task_queue=names.node_task_queue(self.name),
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            start_signal=names.NODE_CONFIGURED,
            start_signal_args=[NodeConfigured(policy, prepull)],
        )


@pytest.fixture
async def host(client: Client) -> AsyncIterator[Host]:
    """Run a worker for a node's workflow."""
    made = Host(client, f"n{uuid.uuid4().hex[:8]}", Images())
    images = made.images
    running = RunningActions()

    def keep(workflow_id: str, decided: Decided, _: PodStart | NodeStart) -> None:
        running.state_kept(workflow_id, decided.run_id)

    async with Worker(
        client,
        task_queue=names.node_task_queue(made.name),
        workflows=[NodeWorkflow],
        activities=[images.watch_images, images.remove_image, images.prepull_image],
        workflow_runner=UnsandboxedWorkflowRunner(),
        interceptors=[publishing(Mock(), running.received, keep), AttachingAttempts(running, PresentAttempts())],
    ):
        yield made
        await client.get_workflow_handle(names.node_workflow_id(made.name)).terminate()


async def status(handle: WorkflowHandle[Any, Any]) -> NodeStatus:
    """Query the status."""
    answer: NodeStatus = await handle.query(names.NODE_STATUS, result_type=NodeStatus)
    return answer


async def test_room_is_made_and_the_reason_stands_in_the_history(host: Host) -> None:
    """An image that cannot be removed now is removed in a later round; afterwards only the watch is pending."""
    handle = await host.configure("wanted:1")
    await host.images.until(lambda: "wanted:1" in host.images.sizes)
    host.images.refuse.add("a")
    await host.images.put(a=30, b=30, c=30)
    await host.images.until(lambda: sum(host.images.sizes.values()) <= 80 and not host.images.refuse)
    await host.images.until(lambda: len(host.images.watches) >= 3)
    words = [one.words for one in (await status(handle)).news]
    assert any(one.startswith("wanted:1 prepulled") for one in words)
    assert any("removed: the disk is 91 % full" in one for one in words)
    assert any("not removed: ImageGCFailed: busy" in one for one in words)
    card = (await handle.describe()).raw_description
    assert card.pending_activities[0].activity_type.name == names.WATCH_IMAGES


async def test_a_restart_adds_nothing_but_what_it_says(host: Host) -> None:
    """The watch continues under the same policy, and is restarted under another."""
    handle = await host.configure()
    await host.images.until(lambda: len(host.images.watches) == 1)
    await host.configure()
    other = ImagePolicy(high_threshold_percent=90, look_every=POLICY.look_every)
    await host.configure(policy=other)
    await host.images.until(lambda: len(host.images.watches) == 2)
    assert host.images.watches[1].policy == other
    assert not (await status(handle)).news


async def test_a_long_run_is_continued_with_all_that_is_known(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next run keeps watching, and knows what the first one has done."""
    monkeypatch.setattr("workflows.temporal_driver.SIGNALS_PER_RUN", 2)
    handle = await host.configure("a:1")
    first = await run_of(handle)
    await host.images.until(lambda: "a:1" in host.images.sizes)
    async with asyncio.timeout(PATIENCE):
        while not (await status(handle)).news:  # else the next configuration, without a:1, could come before its answer
            pass
    await host.configure("b:1")
    await host.images.until(lambda: "b:1" in host.images.sizes)
    newest = host.client.get_workflow_handle(handle.id)
    await until_another(host.client, handle.id, first)
    await host.images.until(lambda: len(host.images.watches) >= 2)
    async with asyncio.timeout(PATIENCE):
        while len(news := (await status(newest)).news) < 2:  # the disk has b:1 before the workflow has the answer
            pass
    words = [one.words for one in news]
    assert [one.partition(" ")[0] for one in words] == ["a:1", "b:1"]


@pytest.mark.parametrize("behaviour", NODE_BEHAVIOURS)
async def test_decisions_under_pressure_are_told_and_change_no_command(
    host: Host, monkeypatch: pytest.MonkeyPatch, behaviour: int
) -> None:
    """They stand in the history and in the answers; a release that does not know the signal replays it to the same commands."""
    host.behaviour = behaviour
    handle = await host.configure()
    await host.images.until(lambda: len(host.images.watches) == 1)
    said = PressureJudged((NodeNews(datetime.now(UTC), "MemoryPressure begins: memory.available is 1Mi"),))
    for _ in range(2):
        await handle.signal(names.PRESSURE_JUDGED, said)
    assert (await status(handle)).news == said.news
    history = await handle.fetch_history()
    kinds = [one.event_type for one in history.events]
    assert kinds.count(EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED) == 1, "the watch alone"
    monkeypatch.delitem(NodeLoop.signal_shapes, names.PRESSURE_JUDGED)
    replayer = Replayer(
        workflows=[NodeWorkflow],
        workflow_runner=UnsandboxedWorkflowRunner(),
        data_converter=host.client.data_converter,
        namespace=host.client.namespace,
    )
    await replayer.replay_workflow(history)
