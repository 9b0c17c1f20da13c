"""What a pod's snapshot says of a resize that waits, for a poller that has just started."""

from datetime import datetime

from proto.kubernetes.api_time import read_api_time
from proto.pod_snapshot import PodSnapshot
from proto.temporal.resources import RESIZE_PENDING, PendingResize


def pending_shown(snapshot: PodSnapshot) -> tuple[PendingResize | None, datetime | None]:
    """Return the resize that is not granted, and since when; None if there is none."""
    for condition in snapshot.status.get("conditions") or ():
        if condition.get("type") == RESIZE_PENDING:
            pending = PendingResize(
                reason=condition.get("reason") or "",
                message=condition.get("message") or "",
                generation=condition.get("observedGeneration"),
                cause=snapshot.resize_cause,
                asked=snapshot.resize_asked,
            )
            return pending, read_api_time(condition.get("lastTransitionTime"))
    return None, None
