"""Tells of activities that somebody has paused in Temporal, and ends a paused probe whose container is gone.

A paused probe freezes readiness and liveness. Its pod does not know: it waits for the activity, and would never probe the
container's next instance, for which it begins another activity as soon as this one has ended. So a probe that was paused
before the running instance started is completed from here. Any other paused activity stays as the operator wants it.
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import structlog
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from proto.interventions import ACTIVITY_PAUSED, Intervention
from proto.pod_snapshot import PodSnapshot
from proto.temporal.names import PROBE_CONTAINER
from worker.daemon.background import in_background, repeat
from worker.temporal.call_budget import CallBudget
from worker.temporal.executions import HELD_BY_A_WORKER, OPEN, describe_execution, list_executions
from worker.temporal.interventions import Interventions, paused_words, pod_name
from worker.temporal.temporal_client import activity_of
from workflows.decide.keys import probe_key

PAUSED: Final = "TemporalPauseInfo IS NOT NULL"
"""Temporal's own search attribute of workflows with something paused; older servers do not know it."""
_STATUSES: Final = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")

_log: Final = structlog.get_logger(__name__)


class PausedActivities:
    """The paused activities of one node."""

    def __init__(
        self,
        client: Client,
        node: str,
        pods: Callable[[], Iterable[PodSnapshot]],
        *,
        root_dir: Path,
        budget: CallBudget | None = None,
    ) -> None:
        """Take the pods' newest snapshots, the folder of the file that tells, and the budget of calls."""
        self._client, self._node, self._pods = client, node, pods
        self._interventions = Interventions(root_dir, "worker")
        self._budget = budget or CallBudget()

    async def look(self) -> None:
        """Look once; if Temporal is unavailable, what was told stays."""
        query = f"PodNode = '{self._node}' AND {PAUSED} AND {OPEN}"
        try:
            async with self._budget.call():
                found = [one.id async for one in list_executions(self._client, query)]
            told = [told for one in found for told in await self._of(one)]
        except RPCError as error:
            if error.status is not RPCStatusCode.INVALID_ARGUMENT:  # that Temporal is away is told elsewhere
                _log.debug("paused activities cannot be listed", err=error.message)
            return
        except RuntimeError:  # the SDK's core could not connect
            return
        self._interventions.tell(told)

    async def _of(self, workflow_id: str) -> list[Intervention]:
        """Return what is to be told of one workflow."""
        async with self._budget.call():
            described = await describe_execution(self._client, workflow_id)
        paused = [one for one in described.pending_activities if one.paused]
        return [told(workflow_id, one) for one in paused if not await self._ended(workflow_id, one)]

    async def _ended(self, workflow_id: str, pending: PendingActivityInfo) -> bool:
        """Complete a probe of an instance that is gone; True if that succeeded."""
        if not is_outdated(pending, next((one for one in self._pods() if one.workflow_id == workflow_id), None)):
            return False
        try:
            async with self._budget.call():
                await activity_of(self._client, workflow_id, pending.activity_id).complete(None)
        except RPCError as error:
            _log.warning(
                "a paused probe of a container that is gone cannot be ended", workflow=workflow_id, err=error.message
            )
            return False
        _log.info(
            "ended a paused probe of a container that is gone", workflow=workflow_id, activity=pending.activity_id
        )
        return True


def is_outdated(pending: PendingActivityInfo, pod: PodSnapshot | None) -> bool:
    """Report whether this is a probe that was paused before the container's running instance started."""
    waits = pending.state == PendingActivityState.PENDING_ACTIVITY_STATE_PAUSED
    if pod is None or pending.activity_type.name != PROBE_CONTAINER or not waits:
        return False
    started = running_since(pod.status, pending.activity_id.removeprefix(probe_key("")))
    at = pending.pause_info.pause_time
    return started is not None and bool(at.seconds) and started > at.ToDatetime(tzinfo=UTC)


def running_since(status: dict[str, Any], container: str) -> datetime | None:
    """Return when a container's running instance started; None if it does not run."""
    for one in (one for field in _STATUSES for one in status.get(field) or ()):
        if one.get("name") == container and (running := (one.get("state") or {}).get("running")):
            return datetime.fromisoformat(running["startedAt"])
    return None


def told(workflow_id: str, pending: PendingActivityInfo) -> Intervention:
    """Tell of a paused activity."""
    works = pending.state in HELD_BY_A_WORKER
    probes = pending.activity_type.name == PROBE_CONTAINER
    follows = "readiness and liveness stay as they are" if probes else "what needs it waits"
    then = "it works on until its attempt ends" if works else follows
    message = (
        f"the activity {pending.activity_id} is {paused_words(pending)}: {then}; "
        f"`temporal activity unpause --workflow-id {workflow_id} --activity-id {pending.activity_id}` continues it"
    )
    return Intervention(workflow_id, ACTIVITY_PAUSED, message, pod_name(workflow_id))


def watching_paused_activities(paused: PausedActivities, every: timedelta) -> AbstractAsyncContextManager[None]:
    """Look periodically while the block runs."""
    return in_background("paused activities", partial(repeat, every, paused.look))
