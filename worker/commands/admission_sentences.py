"""What history tells of a pod that its node does not take: the start holds all that this was decided by."""

from collections.abc import Iterator

from proto.temporal.pod import PodStart
from workflows.decide.admission import why_rejected


def rejected(start: PodStart) -> Iterator[str]:
    """Say why nothing of the pod begins, where that is so."""
    for why in why_rejected(start.pod, start.settings):
        yield f"the node does not take it: {why.reason}: Pod was rejected: {why.message}"
        return
