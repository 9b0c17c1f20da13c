"""Are the node's images handed back to the node's own workflow, as a pod is to its?"""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio.client import WorkflowExecutionStatus, WorkflowHandle
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from proto.temporal import names
from proto.temporal.away import EntryKind, NodeHandedBack, StoryEntry, WhileAway
from proto.temporal.node import NodeConfigured, NodeNews, NodeObserved, NodeStart
from proto.temporal.ticket import Ticket
from tests.patience import PATIENCE
from tests.workflows.conftest import client
from tests.workflows.test_node import POLICY, Host, host, status
from worker.stand_in.hand_back.handing_back import HandingBack
from worker.stand_in.hand_back.returned import HandedOver, Returned
from worker.stand_in.journal.kept import NumberedEntry, Story
from worker.temporal.executions import list_executions
from workflows.decide.versions import CURRENT_NODE
from workflows.node import NodeWorkflow

__all__ = ["client", "host"]  # fixtures of other files
SINCE = datetime(2026, 11, 23, 17, 0, tzinfo=UTC)
ENTRIES = tuple(
    NumberedEntry(number, StoryEntry(SINCE, EntryKind.WAITED, f"{number}" + "." * 25_000, value=1))
    for number in range(1, 6)
)
NEWS = NodeNews(SINCE + timedelta(seconds=5), "old:1 (30 B) removed: the disk is 91 % full")
Handle = WorkflowHandle[Any, Any]


def returned(host: Host, epoch: int = 1) -> Returned:
    """Hand the images back, of which one was removed meanwhile."""
    observed = NodeObserved(NodeConfigured(POLICY), to_prepull=("late:1",), news=(NEWS,))
    start = NodeStart(host.name, CURRENT_NODE, observed, Ticket("", epoch))
    return Returned(names.node_workflow_id(host.name), start, None, SINCE, Story(ENTRIES))


async def runs_of(host: Host, count: int) -> list[list[str]]:
    """Return the names of the signals to each run, oldest first, once there are so many runs; each run replays."""
    query, found = f"WorkflowId = '{names.node_workflow_id(host.name)}'", list[Any]()
    async with asyncio.timeout(PATIENCE):
        while len(found) < count:  # visibility lags
            found = sorted([one async for one in list_executions(host.client, query)], key=lambda one: one.start_time)
    signals = []
    replayer = Replayer(
        workflows=[NodeWorkflow],
        workflow_runner=UnsandboxedWorkflowRunner(),
        namespace=host.client.namespace,
        data_converter=host.client.data_converter,
    )
    for one in found:
        history = await host.client.get_workflow_handle(one.id, run_id=one.run_id).fetch_history()
        await replayer.replay_workflow(history)
        attributes = [event.workflow_execution_signaled_event_attributes.signal_name for event in history.events]
        signals.append([name for name in attributes if name])
    return signals


def newest(host: Host) -> Handle:
    """Return the newest run."""
    return host.client.get_workflow_handle(names.node_workflow_id(host.name))


async def until_pulled(host: Host, image: str) -> None:
    """Wait until the run that goes on has pulled what was left to pull, and has said so."""
    await host.images.until(lambda: image in host.images.sizes)
    async with asyncio.timeout(PATIENCE):
        while not any(one.words.startswith(image) for one in (await status(newest(host))).news):
            pass


async def test_an_open_run_takes_it(host: Host) -> None:
    """The story first, in three parts; the next run has the state, and goes on. A second time changes nothing."""
    handle = await host.configure("first:1")
    await until_pulled(host, "first:1")
    for _ in range(2):
        assert await HandingBack(host.client).hand_back(returned(host)) is HandedOver.TAKEN
    await until_pulled(host, "late:1")
    news = (await status(newest(host))).news
    assert news[0] == NEWS
    assert [one.words.partition(" ")[0] for one in news] == ["old:1", "late:1"]
    before, after = await runs_of(host, 2)
    assert before == [names.NODE_CONFIGURED, *[names.WHILE_AWAY] * 3, names.HANDED_BACK]
    assert after == []
    first = host.client.get_workflow_handle(handle.id, run_id=handle.first_execution_run_id)
    assert (await first.describe()).status is WorkflowExecutionStatus.CONTINUED_AS_NEW, "it was not replaced"


async def test_a_configuration_that_arrives_meanwhile_is_kept(host: Host) -> None:
    """It is newer than the state: the next run begins with it."""
    handle = await host.configure("first:1")
    await until_pulled(host, "first:1")
    await handle.signal(names.WHILE_AWAY, WhileAway(1, 0))
    await host.configure("new:1")
    observed = returned(host).start.observed
    assert isinstance(observed, NodeObserved)
    await handle.signal(names.HANDED_BACK, NodeHandedBack(1, SINCE, SINCE, observed))
    await until_pulled(host, "new:1")
    assert "late:1" not in host.images.sizes
    assert (await status(newest(host))).news[0] == NEWS


async def test_a_run_that_was_told_a_story_decides_nothing(host: Host) -> None:
    """What it knows is outdated, until it has the state."""
    handle = await host.configure()
    await host.images.until(lambda: len(host.images.watches) == 1)
    await handle.signal(names.WHILE_AWAY, WhileAway(1, 0))
    await host.configure("new:1")
    await status(handle)
    assert "new:1" not in host.images.sizes
    assert not (await status(handle)).prepulling
    assert await HandingBack(host.client).hand_back(returned(host)) is HandedOver.TAKEN
    await until_pulled(host, "new:1")


@pytest.mark.parametrize("is_known", [True, False], ids=["terminated", "never-started"])
async def test_without_an_open_run_another_one_begins(host: Host, is_known: bool) -> None:
    """It is told the story first, and begins nothing before it has the state."""
    if is_known:
        handle = await host.configure("first:1")
        await until_pulled(host, "first:1")
        await handle.terminate("by hand")
    assert await HandingBack(host.client).hand_back(returned(host)) is HandedOver.TAKEN
    await until_pulled(host, "late:1")
    told, after = (await runs_of(host, 2 + is_known))[-2:]
    assert told == [*[names.WHILE_AWAY] * 4, names.HANDED_BACK]
    assert after == []


async def test_a_run_that_does_not_take_it_is_replaced(host: Host) -> None:
    """Its code does not replay, for example."""
    await replace(host, behaviour=999).configure()  # its workflow tasks fail
    handing = HandingBack(host.client, taken_within=timedelta(seconds=1))
    assert await handing.hand_back(returned(host)) is HandedOver.TAKEN
    await until_pulled(host, "late:1")
    assert (await status(newest(host))).news[0] == NEWS
