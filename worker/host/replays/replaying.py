"""Replays histories against this code's workflows; used by the worker at its start, by `tempolet replay` and by the tests."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from temporalio.client import WorkflowHistory
from temporalio.runtime import Runtime
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner, WorkflowRunner

from worker.temporal.codec import PayloadCipher, plain_data_converter
from worker.temporal.decoded_history import decode_history, is_encrypted
from worker.temporal.keys import KeyFile
from workflows.node import NodeWorkflow
from workflows.pod import PodWorkflow

LONGEST_FAILURE: Final = 500
"""Characters."""
AS_THE_WORKER: Final[WorkflowRunner] = UnsandboxedWorkflowRunner()
"""The worker's own way to run workflows; it has no state."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of replaying one history."""

    name: str
    events: int
    failure: str = ""
    """Empty if it replays."""

    def __str__(self) -> str:
        if self.failure:
            return f"DIFFERS {self.name} ({self.events} events): {self.failure}"
        return f"fits    {self.name} ({self.events} events)"


async def replay(
    name: str,
    history: WorkflowHistory,
    *,
    runner: WorkflowRunner = AS_THE_WORKER,
    runtime: Runtime | None = None,
    threads: ThreadPoolExecutor | None = None,
) -> Verdict:
    """Replay one decoded history against this code's workflows; without `runtime` and `threads`, with some of its own."""
    replayer = Replayer(
        workflows=[NodeWorkflow, PodWorkflow],
        workflow_runner=runner,
        data_converter=plain_data_converter(),
        debug_mode=True,  # without the detector of deadlocks, which takes a loaded machine for a difference
        runtime=runtime,
        workflow_task_executor=threads,
        build_id="replay",  # without one, the SDK would hash the code of every module
    )
    result = await replayer.replay_workflow(history, raise_on_replay_failure=False)
    failure = result.replay_failure
    return Verdict(name, len(history.events), _describe(failure) if failure else "")


def opened(history: WorkflowHistory, keys: KeyFile, namespace: str) -> WorkflowHistory:
    """Return a history with decrypted payloads; raises KeyMissing. Takes CPU time."""
    return decode_history(history, PayloadCipher(keys), namespace) if is_encrypted(history) else history


def _describe(failure: BaseException) -> str:
    """Describe in one line how a replay differs."""
    text = " ".join(str(failure).split())
    return text if len(text) <= LONGEST_FAILURE else f"{text[: LONGEST_FAILURE - 1]}…"
