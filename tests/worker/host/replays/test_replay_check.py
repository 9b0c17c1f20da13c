"""Is each open history replayed once with new code, and does the node lead the pods whose histories differ?

On a real Temporal. The histories that differ are those of another class, as another release's would be.
"""

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio import workflow
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from activities.execution.attempts import AttachingAttempts
from proto.temporal import names
from tests.patience import PATIENCE
from tests.workflows.conftest import Node, client, pod_json
from tests.workflows.model_runtime import ModelRuntime
from worker.daemon.troubles import Troubles
from worker.host.pod_cache import publishing
from worker.host.replays import replay_check
from worker.host.replays.build import build_id, digest
from worker.host.replays.findings import Finding
from worker.host.replays.replay_check import CheckDependencies, ReplayCheck
from worker.host.temporal.first_look import FirstLook
from worker.temporal.call_budget import CallBudget
from workflows.decide.versions import CURRENT
from workflows.pod import PodWorkflow

__all__ = ["client"]  # a fixture


@workflow.defn(name=names.POD_WORKFLOW, sandboxed=False)
class AnotherRelease:
    """A pod's workflow that waits first, as today's does not."""

    @workflow.run
    async def run(self, _start: dict[str, Any]) -> None:
        """Wait for ever."""
        await workflow.sleep(timedelta(days=1))
        await workflow.wait_condition(lambda: False)

    @workflow.signal(name=names.POD_LISTED)
    def listed(self, _signal: dict[str, Any]) -> None:
        """Take the poller's signal."""


class Checking:
    """One worker process as far as the check is concerned."""

    def __init__(self, node: Node, folder: Path, key_file: Path, **more: Any) -> None:
        self.node = node
        self.led: dict[str, str] = {}
        self.is_known = True
        self.findings: Counter[str] = Counter()
        self.notes: list[str] = []
        self.troubles = Troubles()
        deps = CheckDependencies(
            state_dir=folder,
            key_file=key_file,
            lead=self._lead,
            note=self.notes.append,
            count=lambda one: self.findings.update([one]),
            troubles=self.troubles,
        )
        self.check = ReplayCheck(replace(deps, **more))

    async def run(self, *known: str) -> None:
        """Check, as a start of the worker would."""
        async with asyncio.timeout(PATIENCE):
            await self.check.run(FirstLook(self.node.client, self.node.name, CallBudget()), known)

    async def _lead(self, workflow_id: str, why: str) -> bool:
        self.led[workflow_id] = why
        return self.is_known


@pytest.fixture
async def node(client: Client) -> AsyncIterator[Node]:
    """Return a node whose workers have gone: one pod of this code, which is ready, and one of another release."""
    made = Node(client, f"n{uuid.uuid4().hex[:8]}", ModelRuntime())
    yield made
    async for one in client.list_workflows(f"PodNode = '{made.name}' AND CloseTime IS NULL"):
        await client.get_workflow_handle(one.id).terminate()


async def of_this_release(node: Node) -> str:
    """Start a pod with today's code; returns its workflow once it is ready."""
    pod, node.behaviour = pod_json(), CURRENT
    async with worker(node, PodWorkflow):
        await node.start(pod)
        await node.until(pod, lambda one: one.ready)
    return node.workflow_id(pod)


async def of_another_release(node: Node, behaviour: int = CURRENT) -> str:
    """Start a pod with other code; returns its workflow once its first task is done."""
    pod, node.behaviour = pod_json(), behaviour
    async with worker(node, AnotherRelease):
        handle = await node.start(pod)
        await has_decided(handle)
    return node.workflow_id(pod)


def worker(node: Node, pods: type) -> Worker:
    """Work for the node with one release's class."""
    return Worker(
        node.client,
        task_queue=names.node_task_queue(node.name),
        workflows=[pods],
        activities=node.runtime.activities(),
        workflow_runner=UnsandboxedWorkflowRunner(),
        interceptors=[
            publishing(node.publish, node.running.received, node.keep, node.end),
            AttachingAttempts(node.running, node.present),
        ],
    )


async def has_decided(handle: WorkflowHandle[Any, Any]) -> None:
    """Wait until a run's first workflow task is in its history."""
    async with asyncio.timeout(PATIENCE):
        async for event in handle.fetch_history_events(wait_new_event=True):
            if event.HasField("workflow_task_completed_event_attributes"):
                return


async def test_what_fits_is_hosted_and_replayed_once(node: Node, tmp_path: Path, key_file: Path) -> None:
    """The next worker of the same build asks Temporal nothing; one of another build replays again."""
    pod = await of_this_release(node)
    checking = Checking(node, tmp_path, key_file)
    await checking.run(pod)
    assert checking.findings == {Finding.FITS: 1}
    assert not checking.led
    assert checking.notes == ["replaying open histories with new code: 1 of 1", ""]
    restarted = Checking(node, tmp_path, key_file)
    await restarted.run(pod)
    assert (restarted.findings, restarted.notes) == ({}, [])


async def test_another_build_replays_again(
    node: Node, tmp_path: Path, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the same one after it."""
    pod = await of_this_release(node)
    for build in ("other", digest(), "other"):
        monkeypatch.setattr(replay_check, "digest", lambda build=build: build)
        checking = Checking(node, tmp_path, key_file)
        await checking.run(pod)
        assert checking.findings == {Finding.FITS: 1}


async def test_a_pod_that_differs_is_led_here(node: Node, tmp_path: Path, key_file: Path) -> None:
    """With the reason; the others are not touched, and nothing is in trouble."""
    fits, differs = await of_this_release(node), await of_another_release(node)
    checking = Checking(node, tmp_path, key_file)
    await checking.run(fits, differs)
    assert checking.findings == {Finding.FITS: 1, Finding.DIFFERS: 1}
    assert list(checking.led) == [differs]
    assert f"does not replay with this release ({build_id()})" in checking.led[differs]
    assert not checking.troubles.lines()


async def test_a_pod_of_which_nothing_is_known_is_told(node: Node, tmp_path: Path, key_file: Path) -> None:
    """Nobody can lead it, so somebody has to decide."""
    differs = await of_another_release(node)
    checking = Checking(node, tmp_path, key_file)
    checking.is_known = False
    await checking.run(differs)
    (trouble,) = checking.troubles.lines()
    assert differs in trouble


async def test_a_run_of_a_newer_release_is_left_alone(node: Node, tmp_path: Path, key_file: Path) -> None:
    """It goes on when that release is back."""
    newer = await of_another_release(node, CURRENT + 1)
    checking = Checking(node, tmp_path, key_file)
    await checking.run(newer)
    assert checking.findings == {Finding.OTHER_RELEASE: 1}
    assert not checking.led


async def test_what_has_closed_or_is_unknown_is_passed_over(node: Node, tmp_path: Path, key_file: Path) -> None:
    """And so is a history that is too large."""
    closed = await of_another_release(node)
    await node.client.get_workflow_handle(closed).terminate()
    checking = Checking(node, tmp_path, key_file)
    await checking.run(closed, f"pod/{node.name}/default/never/was")
    assert checking.findings == {Finding.UNCHECKED: 2}
    assert not checking.led


async def test_a_large_history_is_not_read(
    node: Node, tmp_path: Path, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither if Temporal says so, nor if it says too little."""
    monkeypatch.setattr(replay_check, "LARGEST", 100)
    pod = await of_another_release(node)
    checking = Checking(node, tmp_path, key_file)
    await checking.run(pod)
    assert checking.findings == {Finding.UNCHECKED: 1}


async def test_the_check_ends_in_time(node: Node, tmp_path: Path, key_file: Path) -> None:
    """What is left is hosted as always, and not replayed at the next start either."""
    pods = [await of_another_release(node) for _ in range(2)]
    checking = Checking(node, tmp_path, key_file, within=timedelta(0))
    await checking.run(*pods)
    assert checking.findings == {Finding.UNCHECKED: 2}
    restarted = Checking(node, tmp_path, key_file)
    await restarted.run(*pods)
    assert not restarted.findings


async def test_a_key_that_is_missing_ends_the_check(node: Node, tmp_path: Path, key_file: Path) -> None:
    """The next start repeats it: nothing is known of any history."""
    pod = await of_this_release(node)
    checking = Checking(node, tmp_path, tmp_path / "no-keys")
    await checking.run(pod)
    assert not checking.led
    with_keys = Checking(node, tmp_path, key_file)
    await with_keys.run(pod)
    assert with_keys.findings == {Finding.FITS: 1}
