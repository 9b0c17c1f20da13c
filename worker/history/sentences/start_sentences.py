"""Sentences about how a pod's workflow starts: the pod is listed, existed before, has ended already, is rejected, or is handed back.

All of it is computed from the workflow's input.
"""

from collections.abc import Iterator
from pathlib import PurePosixPath

from proto.kubernetes.admission import REJECTED_PREFIX
from proto.temporal.pod import PodStart
from proto.temporal.pod_inputs import FirstSight, Rejected
from workflows.decide.machine_abilities import why_rejected


def pod_listed(start: PodStart) -> str:
    """Report how the pod came to this node."""
    where = f"manifest {PurePosixPath(start.path).name}" if start.path else f"the {start.source} source"
    uid = start.pod.get("metadata", {}).get("uid", "")
    return f"{where} lists the pod (UID {uid})" if not start.path else f"{where} listed (UID {uid})"


def taken_back(*, by_the_run_before: bool) -> str:
    """Report the first run after an outage; the run before may have been closed, or unable to take the pod back."""
    if by_the_run_before:
        return "Temporal is back: the pod goes on in a new run"
    return "Temporal is back: the pod goes on in a new run, because the run before could not take it back"


def never_was_here(start: PodStart) -> bool:
    """Report whether the node rejects the pod, and it was not here before: nothing of it was ever mounted or prepared."""
    seen = start.first_sight or FirstSight()
    return not seen.started_at and not seen.ended and _rejected(start) is not None


def _rejected(start: PodStart) -> Rejected | None:
    seen = start.first_sight or FirstSight()
    return seen.rejected or next(why_rejected(start.pod, start.settings), None)


def at_first(start: PodStart) -> Iterator[str]:
    """Report what was known of the pod when its workflow started, and why it is not run, if so."""
    seen = start.first_sight or FirstSight()
    if seen.started_at:
        yield f"it is here since {seen.started_at.astimezone():%Y-%m-%d %H:%M:%S}, and had no workflow any more"
    if seen.ended:
        yield f"the API shows the pod as {seen.ended.phase}" + (f" ({seen.ended.reason})" if seen.ended.reason else "")
    elif why := _rejected(start):
        yield f"the node rejects the pod: {why.reason}: {REJECTED_PREFIX}{why.message}"
