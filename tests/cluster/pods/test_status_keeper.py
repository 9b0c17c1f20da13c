"""Does the status keeper write what workflows publish to a real API server: at once, once, to the right pod, until it succeeds?"""

import asyncio
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest

from activities.clients.api_server.api_server import ApiAway, ApiRefused
from activities.clients.api_server.kubeconfig import load_kubeconfig
from activities.objects.pod_objects import ObjectState
from proto.temporal.pod import PodKey
from tests.cluster.cluster_node import pods_path
from tests.cluster.control_plane import ControlPlane
from tests.cluster.pods.kept_statuses import NODE, Watched, create, keeping, says, settled, until
from worker.status.keeper import MAYBE_ANOTHER_UID

READY: Final = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05.123456Z"}


async def test_a_status_is_written_at_once_and_then_left_alone(
    node_api: Watched, plane: ControlPlane, bound_pod: Any
) -> None:
    """One patch with the pod's UID and only the changes; the same status again causes none."""
    async with keeping(node_api) as keeper:
        keeper.publish(
            says(bound_pod, phase="Running", conditions=[READY], podIPs=[{"ip": "10.1.2.3"}], podIP="10.1.2.3")
        )
        status = await until(plane.api, bound_pod, lambda status: status["phase"] == "Running")
        assert [one["type"] for one in status["conditions"]] == ["Ready"], (
            "PodScheduled is ours, and we have said nothing of it"
        )
        assert status["podIPs"] == [{"ip": "10.1.2.3"}]
        assert node_api.patches[0]["metadata"] == {"uid": bound_pod["metadata"]["uid"]}
        assert "qosClass" not in node_api.patches[0]["status"]
        keeper.publish(
            says(bound_pod, phase="Running", conditions=[READY], podIPs=[{"ip": "10.1.2.3"}], podIP="10.1.2.3")
        )
        await settled(keeper, plane.api)
        assert len(node_api.patches) == 2, "the second is the pod that came afterwards"


async def test_others_words_are_kept_and_ours_are_set_right(
    node_api: Watched, plane: ControlPlane, bound_pod: Any
) -> None:
    """A controller's gate condition stays; an overwritten field of ours is restored at once."""
    async with keeping(node_api) as keeper:
        keeper.publish(says(bound_pod, phase="Running", conditions=[READY]))
        await until(plane.api, bound_pod, lambda status: status["phase"] == "Running")
        gate = {"type": "example.com/gate", "status": "True"}
        path = pods_path(name=bound_pod["metadata"]["name"]) + "/status"
        kind = "application/strategic-merge-patch+json"
        meddled = {"status": {"phase": "Pending", "conditions": [gate, {"type": "Ready", "status": "False"}]}}
        await asyncio.to_thread(plane.api.call, "PATCH", path, meddled, kind=kind)
        status = await until(plane.api, bound_pod, lambda status: status["phase"] == "Running")
        told = {one["type"]: one["status"] for one in status["conditions"]}
        assert told == {"example.com/gate": "True", "Ready": "True"}


async def test_an_end_never_reverts(node_api: Watched, plane: ControlPlane, bound_pod: Any) -> None:
    """Succeeded is reported when nothing can run any more, and whatever a workflow publishes later is not."""
    async with keeping(node_api) as keeper:
        keeper.publish(says(bound_pod, phase="Running"))
        await until(plane.api, bound_pod, lambda status: status["phase"] == "Running")
        keeper.publish(says(bound_pod, "terminating", phase="Succeeded"))
        await settled(keeper, plane.api)
        assert plane.api.get(pods_path(name=bound_pod["metadata"]["name"]))["status"]["phase"] == "Running"
        keeper.publish(says(bound_pod, "terminated", phase="Succeeded"))
        await until(plane.api, bound_pod, lambda status: status["phase"] == "Succeeded")
        keeper.publish(says(bound_pod, phase="Running"))
        await settled(keeper, plane.api)
        assert plane.api.get(pods_path(name=bound_pod["metadata"]["name"]))["status"]["phase"] == "Succeeded"


async def test_another_pod_of_the_same_name_is_left_alone(
    node_api: Watched, plane: ControlPlane, bound_pod: Any
) -> None:
    """The UID identifies the pod: by the cache, and by the server if it is not cached."""
    name = bound_pod["metadata"]["name"]
    plane.api.delete(pods_path(name=name), gracePeriodSeconds=0)
    other = create(plane.api, name)
    async with keeping(node_api) as keeper:
        keeper.publish(says(bound_pod, phase="Running"))
        await settled(keeper, plane.api)
        assert plane.api.get(pods_path(name=name))["status"]["phase"] == "Pending"
        keeper.publish(says(other, phase="Running"))
        await until(plane.api, other, lambda status: status["phase"] == "Running")


async def test_a_patch_for_another_uid_is_refused_as_the_keeper_expects(node_api: Watched, bound_pod: Any) -> None:
    """A pod may be replaced between two watch events: the keeper learns that from the server's response."""
    path = pods_path(name=bound_pod["metadata"]["name"]) + "/status"
    with pytest.raises(ApiRefused) as refused:
        await node_api.patch(path, {"metadata": {"uid": str(uuid4())}, "status": {"phase": "Running"}})
    assert refused.value.status in MAYBE_ANOTHER_UID


async def test_a_mirror_pod_has_the_status_of_its_static_pod(node_api: Watched, plane: ControlPlane) -> None:
    """It is found by its annotation, whenever it appears, and another static pod's mirror is left alone."""
    static = {"metadata": {"namespace": "default", "name": f"static-{uuid4().hex[:8]}", "uid": uuid4().hex}}
    async with keeping(node_api) as keeper:
        keeper.publish(says(static, source="file", phase="Running"))
        await settled(keeper, plane.api)
        name = static["metadata"]["name"]
        wrong = await asyncio.to_thread(create, plane.api, name, {"kubernetes.io/config.mirror": "of-another"})
        await settled(keeper, plane.api)
        assert plane.api.get(pods_path(name=name))["status"]["phase"] == "Pending"
        plane.api.delete(pods_path(name=name), gracePeriodSeconds=0)
        mirror = await asyncio.to_thread(
            create, plane.api, name, {"kubernetes.io/config.mirror": static["metadata"]["uid"]}
        )
        assert mirror["metadata"]["uid"] != wrong["metadata"]["uid"]
        await until(plane.api, mirror, lambda status: status["phase"] == "Running")


async def test_after_a_restart_everything_is_compared_again(
    node_api: Watched, plane: ControlPlane, bound_pod: Any
) -> None:
    """What a worker could not write any more, the next one writes from the cache."""
    async with keeping(node_api, says(bound_pod, phase="Running", message=None)):
        await until(plane.api, bound_pod, lambda status: status["phase"] == "Running")
    written = len(node_api.patches)
    async with keeping(node_api, says(bound_pod, phase="Running", message=None)) as keeper:
        await settled(keeper, plane.api)
    assert len(node_api.patches) == written + 1, "only of the pod that came afterwards"


async def test_an_absent_api_server_is_waited_for_and_the_newest_word_wins(tmp_path: Path) -> None:
    """An hour of statuses without an API server costs nothing, and all are written soon after its return."""
    with ControlPlane(tmp_path) as plane:
        pods = [create(plane.api, f"away-{index}") for index in range(20)]
        async with Watched(load_kubeconfig(plane.node_kubeconfig(NODE))) as server:
            server.asked = []
            async with keeping(server) as keeper:
                keeper.publish(says(pods[0], phase="Running"))
                await until(plane.api, pods[0], lambda status: status["phase"] == "Running")
                await asyncio.to_thread(plane.stop_apiserver)
                server.asked.clear()
                for word in ("one", "two", "three"):
                    for pod in pods:
                        keeper.publish(says(pod, phase="Running", message=word))
                    await asyncio.sleep(1)  # in which a keeper that tries each pod separately would do so
                first = PodKey("default", "away-0", pods[0]["metadata"]["uid"])
                with pytest.raises(ApiAway):
                    await keeper.write_last(first, {"phase": "Failed"})
                assert len(server.patches) < 2 * len(pods), "one try at a time stands for all pods"
                await asyncio.to_thread(plane.start_apiserver)
                for pod in pods[1:]:
                    await until(plane.api, pod, lambda status: status.get("message") == "three")


async def test_the_last_word_is_written_once_and_nothing_after_it(
    node_api: Watched, plane: ControlPlane, bound_pod: Any
) -> None:
    """The final status is written before the object is deleted; what is published afterwards changes nothing."""
    key = PodKey("default", bound_pod["metadata"]["name"], bound_pod["metadata"]["uid"])
    path = pods_path(name=key.name)
    async with keeping(node_api) as keeper:
        keeper.publish(says(bound_pod, phase="Running"))
        await until(plane.api, bound_pod, lambda status: status["phase"] == "Running")
        assert await keeper.write_last(key, {"phase": "Running"}) is ObjectState.WANTED
        await asyncio.to_thread(plane.api.delete, path, gracePeriodSeconds=30)
        assert await keeper.write_last(key, {"phase": "Failed"}) is ObjectState.DELETING
        keeper.publish(says(bound_pod, "terminated", phase="Running", message="late"))
        await settled(keeper, plane.api)
        status = plane.api.get(path)["status"]
        assert (status["phase"], status.get("message")) == ("Failed", None)
        await asyncio.to_thread(plane.api.delete, path, gracePeriodSeconds=0)
        assert await keeper.write_last(key, {"phase": "Failed"}) is ObjectState.GONE
