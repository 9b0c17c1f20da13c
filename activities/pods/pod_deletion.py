"""Ends a pod's life in the API: writes its last status and deletes its object.

The object is deleted with grace period 0 and its UID as a precondition, as the kubelet does
(pkg/kubelet/status/status_manager.go syncPod). Temporal's retries wait for an API server that is unavailable, so that a pod
stuck in Terminating shows the reason and the number of tries.
"""

from temporalio import activity

from activities.clients.api_server.errors import ApiAway, ApiRefused
from activities.clients.api_server.resources import PODS
from activities.execution.errors import retryable_failure
from activities.execution.heartbeat import heartbeating
from activities.objects.pod_objects import ObjectState
from activities.pods.services import PodServices
from proto.temporal import names
from proto.temporal.activities.requests import DeletePodObject
from proto.temporal.failure_types import API_SERVER_AWAY


class PodDeletionActivities:
    """The last step in the life of a pod from the API."""

    def __init__(self, services: PodServices) -> None:
        self._services = services

    @activity.defn(name=names.DELETE_POD_OBJECT)
    async def delete_pod_object(self, request: DeletePodObject) -> None:
        """Write the last status and delete the object; one that is gone or was replaced counts as deleted.

        Raises APIServerAway, NoAPIServer, PodObjectRefused and PodObjectWanted, which Temporal retries without end.
        """
        try:
            async with heartbeating(f"delete the object of {request.pod}"):
                await self._delete(request)
        except ApiAway as error:
            message = f"the API server does not answer, {request.pod} stays in it as it is: {error}"
            raise retryable_failure(API_SERVER_AWAY, message) from error
        except ApiRefused as error:
            message = f"the API server refuses what {request.pod} ends with: {error.status} {error.reason}: {error}"
            raise retryable_failure("PodObjectRefused", message) from error

    async def _delete(self, request: DeletePodObject) -> None:
        api, objects, pod = self._services.api, self._services.pod_objects, request.pod
        if api is None or objects is None:
            raise retryable_failure(
                "NoAPIServer", f"{pod} came from an API server, and this node has none: give --kubeconfig again"
            )
        state = await objects.write_last(pod, request.status)
        if state is ObjectState.GONE:
            return
        if state is ObjectState.WANTED:
            message = f"{pod} is completely removed from this node, but its object was not deleted: delete it with `kubectl delete`"
            raise retryable_failure("PodObjectWanted", message)
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod.uid}}
        try:
            await api.delete(PODS.path(pod.name, namespace=pod.namespace), options)
        except ApiRefused as error:
            if not error.not_found and not error.conflict:
                raise
        objects.forget(pod)
