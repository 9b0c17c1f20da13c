"""Replays the open histories of this node before the worker takes tasks, if its code has changed since they were replayed.

A workflow that does not replay fails its tasks for ever. So this node leads such a pod itself, from the last state that is known of it,
and another run takes its place (`worker/stand_in/`). The check is bounded in bytes and time. What it does not reach is hosted as always: after
three failed tasks the node leads the pod, too.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

import structlog
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.client import WorkflowHistory
from temporalio.runtime import Runtime
from temporalio.service import RPCError, RPCStatusCode

from worker.behaviours.runs import KINDS
from worker.daemon.troubles import TROUBLES, Troubles
from worker.host.replays.build import build_id, digest
from worker.host.replays.checked_build import CheckedBuild
from worker.host.replays.findings import Finding, Found, found, reason
from worker.host.replays.replaying import opened, replay
from worker.host.temporal.first_look import FirstLook
from worker.temporal.executions import PAUSED, is_open
from worker.temporal.keys import KeyFile, KeyMissing

WITHIN: Final = timedelta(seconds=20)
"""For all histories; 110 pods that run take 3 to 10 s."""
LARGEST: Final = 16 << 20
"""Bytes of one history; a run of some 500 events has less than one megabyte."""
CALL_LIMIT: Final = timedelta(seconds=10)
ENDED_WITHIN: Final = 1.0
"""Seconds for a replay that is interrupted; the thread of one that hangs is left behind."""
THREADS: Final = 2
REPLAYS: Final = "replays"
"""Names the part in the record of troubles, and in the status line."""
_DONE: Final = "it has closed meanwhile, or is paused"

_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckDependencies:
    """What ReplayCheck works with."""

    state_dir: Path
    key_file: Path
    runtime: Runtime | None = None
    """The SDK's, which the process has already; None: its default one."""
    lead: Callable[[str, str], Awaitable[bool]]
    """Leads a pod here, for this reason; False if no state of it is known."""
    note: Callable[[str], None]
    """Takes what the status line says of it."""
    count: Callable[[str], None]
    """Takes each finding."""
    within: timedelta = WITHIN
    troubles: Troubles = TROUBLES


class ReplayCheck:
    """The check of one node's histories; use it from one event loop."""

    def __init__(self, dependencies: CheckDependencies) -> None:
        self._deps = dependencies
        self._checked = CheckedBuild(dependencies.state_dir)

    async def run(self, look: FirstLook, known: Iterable[str]) -> None:
        """Replay what is open, unless this build has; raises nothing. `known`: workflows that visibility may not list yet."""
        build, namespace = await asyncio.to_thread(digest), look.client.namespace
        if await asyncio.to_thread(self._checked.is_checked, build, namespace):
            return
        try:
            if await self._within_limit(look, known):
                await asyncio.to_thread(self._checked.checked, build, namespace)
        except Exception as error:  # noqa: BLE001 - without a check a worker is as good as before
            _log.exception("open histories could not be replayed; going on", err=str(error))
        finally:
            self._deps.note("")

    async def _within_limit(self, look: FirstLook, known: Iterable[str]) -> bool:
        """Return whether the check is done: False if Temporal did not answer, so that the next start repeats it."""
        listed = await look.open_pods()
        workflows = sorted({*known, *(listed or ())})
        histories = Histories(look, KeyFile(self._deps.key_file), self._deps.runtime)
        results = list[Found]()
        task = asyncio.create_task(self._replay_all(histories, workflows, results), name="replays of open histories")
        try:
            await asyncio.wait({task}, timeout=self._deps.within.total_seconds())
        finally:
            task.cancel()
            await asyncio.wait({task}, timeout=ENDED_WITHIN)
            histories.close()
        left = workflows[len(results) :]
        for _ in left:
            self._deps.count(Finding.UNCHECKED)
        differ = sum(one.finding is Finding.DIFFERS for one in results)
        _log.info("replayed open histories", replayed=len(results), differ=differ, left_out=len(left))
        ended_by = task.exception() if task.done() and not task.cancelled() else None
        if isinstance(ended_by, RPCError | RuntimeError | KeyMissing):
            _log.warning("not every open history could be replayed", err=str(ended_by))
            return False
        if ended_by is not None:
            raise ended_by
        return listed is not None

    async def _replay_all(self, histories: "Histories", workflows: list[str], results: list[Found]) -> None:
        """Replay one after the other; raises RPCError, RuntimeError, KeyMissing."""
        unkept = list[str]()
        self._deps.troubles.works(REPLAYS)
        for number, workflow_id in enumerate(workflows, start=1):
            self._deps.note(f"replaying open histories with new code: {number} of {len(workflows)}")
            one = await histories.replay(workflow_id)
            self._deps.count(one.finding)
            if one.finding is Finding.DIFFERS and not await self._lead(one):
                unkept.append(f"{one.workflow_id}: {reason(build_id(), one.why)}")
                self._deps.troubles.failed(REPLAYS, "; ".join(unkept))
            elif one.finding is not Finding.FITS and one.why != _DONE:
                _log.warning("an open history was not replayed", workflow=workflow_id, err=one.why)
            results.append(one)

    async def _lead(self, one: Found) -> bool:
        why = reason(build_id(), one.why)
        if await self._deps.lead(one.workflow_id, why):
            _log.warning("leads a pod whose history does not replay", workflow=one.workflow_id, err=one.why)
            return True
        _log.error(
            "a history does not replay, and the node has no state of the workflow: its tasks will fail; "
            f"`temporal workflow terminate -w {one.workflow_id}` lets it begin anew, with the containers that run",
            workflow=one.workflow_id,
            err=one.why,
        )
        return False


class Histories:
    """Reads the newest histories of workflows, and replays them; nothing of it outlives `close`."""

    def __init__(self, look: FirstLook, keys: KeyFile, runtime: Runtime | None) -> None:
        self._look, self._client, self._keys, self._runtime = look, look.client, keys, runtime
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="replay")

    def close(self) -> None:
        """Let go of the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def replay(self, workflow_id: str) -> Found:
        """Replay the newest run of a workflow; raises RPCError, RuntimeError, KeyMissing."""
        try:
            described = await self._look.describe(workflow_id)
            info = described.workflow_execution_info if described else None
            if not info or not is_open(info.status) or info.status == PAUSED or info.type.name not in KINDS:
                return Found(workflow_id, Finding.UNCHECKED, _DONE)
            history = await self._read(info)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return Found(workflow_id, Finding.UNCHECKED, _DONE)
        if history is None:
            return Found(workflow_id, Finding.UNCHECKED, f"its history has more than {LARGEST >> 20} MiB")
        plain = await asyncio.to_thread(opened, history, self._keys, self._client.namespace)
        behaviour = _behaviour(plain)
        if behaviour is None:
            return Found(workflow_id, Finding.UNCHECKED, "its input is not ours")
        try:
            verdict = await replay(workflow_id, plain, runtime=self._runtime, threads=self._threads)
        except Exception as error:  # noqa: BLE001 - one odd history must not end the check of the others
            return Found(workflow_id, Finding.UNCHECKED, f"{type(error).__name__}: {error}")
        return found(workflow_id, KINDS[info.type.name], behaviour, verdict.failure)

    async def _read(self, info: WorkflowExecutionInfo) -> WorkflowHistory | None:
        """Read a run's history; None if it is too large. Raises RPCError."""
        if info.history_size_bytes > LARGEST:
            return None
        workflow_id, run_id = info.execution.workflow_id, info.execution.run_id
        events, size = [], 0
        handle = self._client.get_workflow_handle(workflow_id, run_id=run_id)
        async for event in handle.fetch_history_events(rpc_timeout=CALL_LIMIT):
            events.append(event)
            size += event.ByteSize()
            if size > LARGEST:
                return None
        return WorkflowHistory(workflow_id, events)


def _behaviour(history: WorkflowHistory) -> int | None:
    """Return the number in a decrypted input; None if there is none of ours."""
    try:
        (start,) = history.events[0].workflow_execution_started_event_attributes.input.payloads
        return int(json.loads(start.data).get("behaviour", 1))
    except (IndexError, ValueError, TypeError, AttributeError, RecursionError):
        return None
