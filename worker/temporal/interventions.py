"""Tells what others did in Temporal that keeps pods from being acted on: paused workflows and activities, foreign workflows.

Used by the poller for workflows and by the worker for activities; each keeps a file of its own (`proto/interventions.py`).
"""

from collections.abc import Iterable
from datetime import UTC
from pathlib import Path
from typing import Final

import structlog
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse

from proto.interventions import WORKFLOW_PAUSED, Intervention, write_interventions
from proto.temporal.names import PodWorkflowId

LONGEST: Final = 200
"""Characters of what others have written."""

_log: Final = structlog.get_logger(__name__)


class Interventions:
    """What is told now; logs what is new, and keeps the file of one role."""

    def __init__(self, root_dir: Path, role: str) -> None:
        self._root_dir, self._role = root_dir, role
        self._told: tuple[Intervention, ...] | None = None

    @property
    def told(self) -> tuple[Intervention, ...]:
        """Return what is told now."""
        return self._told or ()

    def tell(self, found: Iterable[Intervention]) -> None:
        """Replace what is told."""
        now = tuple(sorted(found, key=lambda one: (one.workflow_id, one.reason)))
        if now == self._told:
            return
        before = set(self._told or ())
        for one in now:
            if one not in before:
                _log.warning(
                    "somebody intervened in Temporal", workflow=one.workflow_id, reason=one.reason, err=one.message
                )
        for one in before.difference(now):
            _log.info("an intervention in Temporal is over", workflow=one.workflow_id, reason=one.reason)
        try:
            write_interventions(self._root_dir, self._role, now)
        except OSError as error:
            _log.warning("could not write the interventions for `tempolet pods`", err=str(error))
        else:
            self._told = now


def told_paused(workflow_id: str, described: DescribeWorkflowExecutionResponse | None) -> Intervention:
    """Tell of a paused workflow; None: Temporal did not say by whom."""
    info = described.workflow_extended_info.pause_info if described else None
    said = ""
    if info and info.HasField("paused_time"):
        said = (
            f" by {info.identity[:LONGEST]} at {info.paused_time.ToDatetime(tzinfo=UTC).isoformat(timespec='seconds')}"
        )
        said += f" ({info.reason[:LONGEST]})" if info.reason else ""
    pod = pod_name(workflow_id)
    what = "its containers run on, but nothing is done about it" if pod else "no image is removed or pulled in advance"
    message = f"its workflow was paused{said}: {what} until `temporal workflow unpause --workflow-id {workflow_id}`"
    return Intervention(workflow_id, WORKFLOW_PAUSED, message, pod)


def paused_words(pending: PendingActivityInfo) -> str:
    """Describe in words who paused an activity, and when."""
    info = pending.pause_info
    at = info.pause_time.ToDatetime(tzinfo=UTC).isoformat(timespec="seconds") if info.HasField("pause_time") else ""
    who = info.manual.identity[:LONGEST] if info.HasField("manual") else "a rule"
    why = f" ({info.manual.reason[:LONGEST]})" if info.manual.reason else ""
    return " ".join(filter(None, ("paused by", who, f"at {at}" if at else ""))) + why


def pod_name(workflow_id: str) -> str:
    """Return a pod's namespace/name; empty for another workflow."""
    try:
        parsed = PodWorkflowId.parse(workflow_id)
    except ValueError:
        return ""
    return f"{parsed.namespace}/{parsed.name}"
