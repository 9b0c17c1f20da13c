"""Sentences about how a pod's workflow starts: the pod existed before, has ended already, or is rejected.

All of it is computed from the workflow's input.
"""

from collections.abc import Iterator

from proto.kubernetes.admission import REJECTED_PREFIX
from proto.temporal.pod import PodStart
from proto.temporal.pod_inputs import FirstSight
from workflows.decide.lifecycle.admission import why_rejected


def at_first(start: PodStart) -> Iterator[str]:
    """Report what was known of the pod when its workflow started, and why it is not run, if so."""
    seen = start.first_sight or FirstSight()
    if seen.started_at:
        yield f"it is here since {seen.started_at.astimezone():%Y-%m-%d %H:%M:%S}, and had no workflow any more"
    if seen.ended:
        yield f"the API shows the pod as {seen.ended.phase}" + (f" ({seen.ended.reason})" if seen.ended.reason else "")
    elif why := seen.rejected or next(why_rejected(start.pod, start.settings), None):
        yield f"the node rejects the pod: {why.reason}: {REJECTED_PREFIX}{why.message}"
