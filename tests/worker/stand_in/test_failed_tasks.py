"""Does the worker notice a run whose workflow tasks fail, and no other?"""

import asyncio
import itertools
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pytest
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from activities.execution.attempts import AttachingAttempts
from activities.execution.present_attempts import PresentAttempts
from proto.temporal import names
from proto.temporal.signals import RuntimeChanged
from tests.patience import PATIENCE
from tests.workflows.conftest import Node, client, pod_json
from tests.workflows.model_runtime import ModelRuntime
from worker.host.pod_cache import publishing
from worker.stand_in.away import judge
from worker.stand_in.dues import Dues
from worker.stand_in.failed_tasks import FIRST_PAUSE, LONGEST_PAUSE, MOST, FailedTasks
from worker.stand_in.hand_back.handing_back import HandingBack
from worker.stand_in.hand_back.returns import FAILED_TASKS
from workflows import steps
from workflows.loops.calls import action_type
from workflows.pod import PodWorkflow

__all__ = ["client"]  # a fixture
WEB = "pod/n/default/web/u1"


@dataclass
class Temporal:
    """Knows how many tasks have failed."""

    failed: int | None = 0
    asked: list[str] = field(default_factory=list)
    told: list[tuple[str, int]] = field(default_factory=list)

    def watch(self) -> FailedTasks:
        """Return what asks it."""

        async def ask(workflow_id: str) -> int | None:
            self.asked.append(workflow_id)
            return self.failed

        return FailedTasks(ask, lambda workflow_id, count: self.told.append((workflow_id, count)))


def begins(watched: FailedTasks, times: int, run_id: str = "r1") -> None:
    """Let a run begin several times."""
    for _ in range(times):
        watched.begun(WEB, run_id)


async def test_a_run_is_asked_about_once_it_has_begun_often() -> None:
    """A run that begins twice was evicted, or queried; another run of the workflow counts anew."""
    temporal = Temporal()
    watched = temporal.watch()
    begins(watched, FAILED_TASKS - 1)
    begins(watched, FAILED_TASKS - 1, "r2")
    await watched.look(0)
    assert temporal.asked == []
    begins(watched, 1, "r2")
    await watched.look(0)
    assert temporal.asked == [WEB]
    assert temporal.told == [(WEB, 0)]


async def test_a_run_that_works_counts_anew() -> None:
    """Temporal says that none of its tasks has failed."""
    temporal = Temporal()
    watched = temporal.watch()
    begins(watched, FAILED_TASKS)
    await watched.look(0)
    begins(watched, FAILED_TASKS - 1)
    await watched.look(1000)
    assert len(temporal.asked) == 1


@pytest.mark.parametrize("failed", [2, None], ids=["it-fails", "no-answer"])
async def test_a_run_that_fails_is_asked_about_again(failed: int | None) -> None:
    """With growing pauses."""
    temporal = Temporal(failed)
    watched = temporal.watch()
    begins(watched, FAILED_TASKS)
    times = []
    for tenths in range(2000):
        before = len(temporal.asked)
        await watched.look(tenths / 10)
        if len(temporal.asked) > before:
            times.append(tenths / 10)
    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert pauses[0] == pytest.approx(FIRST_PAUSE)
    assert pauses[-1] == pytest.approx(LONGEST_PAUSE)
    assert temporal.told == ([(WEB, failed)] * len(times) if failed else [])


async def test_what_is_remembered_is_bounded() -> None:
    """Pods come and go for months."""
    temporal = Temporal()
    watched = temporal.watch()
    begins(watched, FAILED_TASKS)
    for number in range(MOST):
        watched.begun(f"pod/n/default/web/{number}", "r")
    await watched.look(0)
    assert temporal.asked == []


class Noticed:
    """A worker that notices failed tasks of a pod, as the node's does."""

    def __init__(self, node: Node) -> None:
        self.node, self.dues = node, Dues(PresentAttempts())
        self.failed = FailedTasks(HandingBack(node.client).failed_tasks, self.dues.failed)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Work while the block runs."""
        node, watch = self.node, asyncio.create_task(self.failed.watch())
        interceptors = [publishing(node.publish, node.running.received, node.keep), self.failed.interceptor]
        try:
            async with Worker(
                node.client,
                task_queue=names.node_task_queue(node.name),
                workflows=[PodWorkflow],
                activities=node.runtime.activities(),
                workflow_runner=UnsandboxedWorkflowRunner(),
                interceptors=[*interceptors, AttachingAttempts(node.running, node.present)],
            ):
                yield
        finally:
            watch.cancel()

    def alone(self) -> list[str]:
        """Name the pods that are to be led alone."""
        verdict = judge(*self.dues.look((), 0.0, datetime.now(UTC)), 0.0)
        assert verdict.away_since is None
        return [workflow_id for workflow_id, _ in verdict.alone]

    async def until_alone(self, *workflow_ids: str) -> None:
        """Wait until just these pods are to be led alone."""
        async with asyncio.timeout(PATIENCE):
            while self.alone() != [*workflow_ids]:  # noqa: ASYNC110 - no event tells
                await asyncio.sleep(0.1)


async def test_a_run_whose_code_does_not_replay_is_noticed(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporal says how many of its tasks in a row have failed; with the code of before the run goes on."""
    node = Node(client, f"n{uuid.uuid4().hex[:8]}", ModelRuntime())
    pod = pod_json()
    async with Noticed(node).running():
        handle = await node.start(pod)
        await node.until(pod, lambda one: one.ready)
    upgraded = Noticed(node)
    with monkeypatch.context() as other_release:
        other_release.setattr(
            steps, "action_type", lambda action: replace(action_type(action), name=f"New{action_type(action).name}")
        )
        async with upgraded.running():
            await handle.signal(names.RUNTIME_CHANGED, RuntimeChanged("event"))
            await upgraded.until_alone(handle.id)
    async with Noticed(node).running():
        await node.delete(handle)
