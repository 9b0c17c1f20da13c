"""Deletes the object of a pod from the API, once nothing of the pod is left on the node.

Until then its name, volumes and address cannot be reused (pkg/kubelet/status/status_manager.go canBeDeleted,
TerminatePod).
"""

from collections.abc import Iterator

from proto.temporal.activities.requests import DeletePodObject
from workflows.decide.actions import Action, Wake
from workflows.decide.situation import Situation, unless_backing_off
from workflows.decide.status.status import pod_status


def delete_object(situation: Situation) -> Iterator[Action | Wake]:
    """Delete the API object of a pod that was deleted there, with its final status."""
    observed = situation.observed
    if situation.from_api and observed.deletion and observed.cleaned and not observed.object_deleted:
        last = pod_status(situation).model_dump(by_alias=True, exclude_none=True, mode="json")
        yield from unless_backing_off(situation, DeletePodObject(situation.key, last))
