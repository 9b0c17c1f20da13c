"""Finds attempts that Temporal takes for running in this worker, and that do not run here; fails them, so that they are retried.

The answer of a poll, or of a workflow task with an eager activity, can be lost with its connection. Temporal notices that
by missing heartbeats, but endless activities have none, and their limit is a year.

An idle node asks Temporal nothing. What should run is in the pods' snapshots, and is compared with what runs in this
process. Only a workflow with an action that has had no attempt for a while is described. An attempt is failed if two
looks find the same one: its start may still be on its way at the first.
"""

from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from functools import partial
from time import monotonic
from typing import Final

import structlog
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import Client
from temporalio.service import RPCError

from activities.execution.present_attempts import PresentAttempts
from proto.pod_snapshot import PodSnapshot
from worker.daemon.background import in_background, repeat
from worker.host.temporal.takeover import fail_attempts

EVERY: Final = timedelta(seconds=15)
MISSING_SECONDS: Final = 20.0
"""Longer than any delay between two tries of an action that Temporal retries by itself."""

_log: Final = structlog.get_logger(__name__)
Found = tuple[str, str, int, int]
"""Run, activity, attempt, and when it started."""


class LostAttempts:
    """Compares what should run with what runs."""

    def __init__(
        self,
        client: Client,
        present: PresentAttempts,
        snapshots: Callable[[], Iterable[PodSnapshot]],
        *,
        node_workflow: str,
        unknown: Collection[str] = (),
    ) -> None:
        """Take `unknown`: workflows of which nothing is known, to be asked for in any case."""
        self._client, self._present, self._snapshots = client, present, snapshots
        self._node_workflow = node_workflow
        self._unknown = {*unknown, node_workflow}
        self._node_idle_since: float | None = None
        self._since: dict[tuple[str, str], float] = {}
        """When an action was first seen in a snapshot."""
        self._doubted: dict[str, set[Found]] = {}
        """By workflow: attempts that the last look did not find here."""

    async def look(self) -> int:
        """Look once; returns how many attempts were failed."""
        failed = 0
        for workflow_id in sorted(self._suspects() | self._unknown | self._doubted.keys()):
            before, now = self._doubted.pop(workflow_id, set()), set[Found]()
            try:
                found = partial(self._is_lost, workflow_id, (before, now))
                failed += await fail_attempts(self._client, workflow_id, found)
            except RPCError as error:
                self._unknown.add(workflow_id)  # asked for again by the next look, as soon as Temporal is back
                _log.debug("Temporal does not say what it takes for running", err=error.message)
                return failed
            self._unknown.discard(workflow_id)
            if now:
                self._doubted[workflow_id] = now
        if failed:
            _log.warning("attempts of activities were lost on their way here; they are retried", number=failed)
        return failed

    def _is_lost(
        self, workflow_id: str, looks: tuple[set[Found], set[Found]], run_id: str, pending: PendingActivityInfo
    ) -> bool:
        before, now = looks
        if self._present.has(workflow_id, pending.activity_id, run_id, pending.attempt):
            return False
        found = (run_id, pending.activity_id, pending.attempt, pending.last_started_time.ToNanoseconds())
        now.add(found)
        return found in before

    def _suspects(self) -> set[str]:
        """List the workflows with an action that has had no attempt here for a while."""
        due = {(one.workflow_id, key) for one in self._snapshots() for key in one.under_way}
        self._since = {action: self._since.get(action, monotonic()) for action in due}
        return self._node_suspect() | {
            workflow_id
            for (workflow_id, key), since in self._since.items()
            if self._present.seconds_without(workflow_id, key, since) >= MISSING_SECONDS
        }

    def _node_suspect(self) -> set[str]:
        """List the node's workflow, which has no snapshot, if it has had no attempt here for a while: it nearly always has one."""
        if self._present.has_any(self._node_workflow):
            self._node_idle_since = None
            return set()
        self._node_idle_since = self._node_idle_since or monotonic()
        return {self._node_workflow} if monotonic() - self._node_idle_since >= MISSING_SECONDS else set()


def failing_lost_attempts(lost: LostAttempts) -> AbstractAsyncContextManager[None]:
    """Look regularly while the block runs; a defect ends it for a while only."""
    return in_background("lost attempts", partial(repeat, EVERY, lost.look))
