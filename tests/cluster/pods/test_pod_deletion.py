"""Is a pod's object deleted from a real API server after its final status is written, and only that pod's?"""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.clients.api_server.kubeconfig import load_kubeconfig
from activities.node_services import NodeServices
from activities.pods.pod_deletion import PodDeletionActivities
from proto.temporal.activities.requests import DeletePodObject
from proto.temporal.pod import PodKey
from tests.cluster.cluster_node import pods_path
from tests.cluster.control_plane import ControlPlane
from tests.cluster.pods.kept_statuses import NODE, Watched, create, keeping
from worker.status.keeper import StatusKeeper

LAST: dict[str, Any] = {"phase": "Failed", "qosClass": "BestEffort", "containerStatuses": []}


async def delete(api: Watched, keeper: StatusKeeper, pod: Any) -> None:
    """Run the activity."""
    meta = pod["metadata"]
    services = cast("NodeServices", SimpleNamespace(api=api, pod_objects=keeper))
    asked = DeletePodObject(PodKey(meta["namespace"], meta["name"], meta["uid"]), LAST)
    await ActivityEnvironment().run(PodDeletionActivities(services).delete_pod_object, asked)


async def test_a_deleted_pod_goes_with_its_last_word(node_api: Watched, plane: ControlPlane, bound_pod: Any) -> None:
    """First the final status, then the deletion of the object, with grace period 0 and by its UID; a repetition does nothing."""
    path = pods_path(name=bound_pod["metadata"]["name"])
    async with keeping(node_api) as keeper:
        await asyncio.to_thread(plane.api.delete, path, gracePeriodSeconds=30)
        await delete(node_api, keeper, bound_pod)
        assert plane.api.find(path) is None
        changes = [body for method, body in node_api.asked if method in ("PATCH", "DELETE")]
        assert changes[0]["status"]["phase"] == "Failed"
        assert changes[1] == {"gracePeriodSeconds": 0, "preconditions": {"uid": bound_pod["metadata"]["uid"]}}
        await delete(node_api, keeper, bound_pod)
        assert len([method for method, _ in node_api.asked if method in ("PATCH", "DELETE")]) == len(changes)


async def test_another_pod_of_its_name_stays(node_api: Watched, plane: ControlPlane, bound_pod: Any) -> None:
    """The first pod was force-deleted; its successor is not affected."""
    name = bound_pod["metadata"]["name"]
    async with keeping(node_api) as keeper:
        await asyncio.to_thread(plane.api.delete, pods_path(name=name), gracePeriodSeconds=0)
        other = await asyncio.to_thread(create, plane.api, name)
        await delete(node_api, keeper, bound_pod)
        assert plane.api.get(pods_path(name=name))["metadata"]["uid"] == other["metadata"]["uid"]


async def test_a_pod_that_nobody_deleted_stays(node_api: Watched, plane: ControlPlane, bound_pod: Any) -> None:
    """Only its owner deletes a pod: the activity waits for that, visibly."""
    async with keeping(node_api) as keeper:
        with pytest.raises(ApplicationError, match="its object was not deleted") as refused:
            await delete(node_api, keeper, bound_pod)
        assert (refused.value.type, refused.value.non_retryable) == ("PodObjectWanted", False)
        assert plane.api.get(pods_path(name=bound_pod["metadata"]["name"]))["status"]["phase"] == "Failed"


async def test_an_absent_api_server_is_tried_again(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Without a limit, by Temporal, with the reason in its UI."""
    with ControlPlane(tmp_path_factory.mktemp("away")) as plane:
        pod = create(plane.api, "away")
        async with Watched(load_kubeconfig(plane.node_kubeconfig(NODE))) as api:
            api.asked = []
            async with keeping(api) as keeper:
                plane.api.delete(pods_path(name="away"), gracePeriodSeconds=30)
                await asyncio.to_thread(plane.stop_apiserver)
                with pytest.raises(ApplicationError, match="does not answer") as away:
                    await delete(api, keeper, pod)
                assert (away.value.type, away.value.non_retryable) == ("APIServerAway", False)
                await asyncio.to_thread(plane.start_apiserver)
                await delete(api, keeper, pod)
                assert plane.api.find(pods_path(name="away")) is None
