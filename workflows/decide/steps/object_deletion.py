"""The last word about a pod of the API: how it ended, and that nothing of it is left on the node.

Its object lives until then, so that nobody takes its name, its volumes or its address while any of it is still here
(pkg/kubelet/status/status_manager.go canBeDeleted, TerminatePod).
"""

from collections.abc import Iterator

from proto.temporal.activities.requests import DeletePodObject
from workflows.decide.actions import Action, Wake
from workflows.decide.situation import Situation, unless_backing_off
from workflows.decide.status.status import pod_status


def delete_object(situation: Situation) -> Iterator[Action | Wake]:
    """Delete the object of a pod of the API that was deleted there, once everything else of it is gone."""
    observed = situation.observed
    if situation.from_api and observed.deletion and observed.cleaned and not observed.object_deleted:
        last = pod_status(situation).model_dump(by_alias=True, exclude_none=True, mode="json")
        yield from unless_backing_off(situation, DeletePodObject(situation.key, last))
