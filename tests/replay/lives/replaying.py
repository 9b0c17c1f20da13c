"""Replays recorded runs with today's workflow code, and compares the commands with the recorded ones."""

import functools
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Any

from temporalio.client import WorkflowHistory
from temporalio.runtime import Runtime, TelemetryConfig
from temporalio.worker import (
    Replayer,
    UnsandboxedWorkflowRunner,
    WorkflowInstance,
    WorkflowInstanceDetails,
    WorkflowRunner,
)

from tests.replay.lives.archive import RecordedRun
from tests.replay.lives.commands import Step, differences, given
from worker.temporal.codec import plain_data_converter
from workflows.node import NodeWorkflow
from workflows.pod import PodWorkflow


@functools.cache
def quiet_runtime() -> Runtime:
    """Create an SDK runtime that logs nothing: the result names the differences."""
    return Runtime(telemetry=TelemetryConfig(logging=None))


@dataclass
class ListeningRunner(WorkflowRunner):
    """Runs workflows without a sandbox, as the worker does, and records their commands."""

    inner: UnsandboxedWorkflowRunner = field(default_factory=UnsandboxedWorkflowRunner)
    said: list[Step] = field(default_factory=list)
    """Commands of the run being replayed; runs are replayed one after the other."""

    def prepare_workflow(self, defn: Any) -> None:
        """Delegate to the inner runner."""
        self.inner.prepare_workflow(defn)

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """Create an instance whose completions are recorded."""
        instance = self.inner.create_instance(det)
        activate = instance.activate
        self.said = said = list[Step]()

        def listened(act: Any) -> Any:
            completion = activate(act)
            said.extend(step for one in completion.successful.commands if (step := given(one)))
            return completion

        instance.activate = listened  # type: ignore[method-assign]  # the SDK has no hook for commands
        return instance


async def replay_all(runs: Iterable[RecordedRun]) -> AsyncIterator[tuple[str, str]]:
    """Replay runs; yields the name of each and its differences, if any."""
    runner, kept = ListeningRunner(), list(runs)

    async def histories() -> AsyncIterator[WorkflowHistory]:
        for run in kept:
            yield run.history

    replayer = Replayer(
        workflows=[NodeWorkflow, PodWorkflow],
        workflow_runner=runner,
        data_converter=plain_data_converter(),
        build_id="replayed",
        runtime=quiet_runtime(),
        debug_mode=True,  # without the detector of deadlocks: a loaded machine may take its 2 s for an ordinary activation
    )
    async with replayer.workflow_replay_iterator(histories()) as results:
        numbered = iter(kept)
        async for result in results:
            run = next(numbered)
            if result.replay_failure:
                yield run.name, " ".join(str(result.replay_failure).split())[:500]
            else:
                yield run.name, next(differences(run.history.events, runner.said), "")
