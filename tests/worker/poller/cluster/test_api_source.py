"""When does a pod count as gone from the API? Tested against a small server."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from activities.clients.api_server.api_server import ApiAway, ApiServer
from activities.clients.api_server.kubeconfig import Kubeconfig
from worker.poller.cluster.api_source import ApiSource
from worker.poller.cluster.cluster_identity import ClusterIdentity

UID = "uid-1"


class Cluster:
    """What the API has."""

    def __init__(self) -> None:
        self.pods: list[str] = []
        self.node = True
        self.uid = "cluster-1"
        self.status = 200
        self.asked: list[str] = []

    async def answer(self, request: web.Request) -> web.Response:
        """Answer as an API server does."""
        self.asked.append(request.path)
        if self.status != 200:
            return web.json_response({}, status=self.status)
        match request.path:
            case "/api/v1/namespaces/default/pods":
                assert request.query["fieldSelector"] == "spec.nodeName=n,metadata.name=web"
                items = [{"metadata": {"uid": uid}} for uid in self.pods]
                return web.json_response({"items": items})
            case "/api/v1/nodes/n" if self.node:
                return web.json_response({"metadata": {"uid": "node-1"}})
            case "/api/v1/namespaces/default/services/kubernetes" if self.uid:
                return web.json_response({"metadata": {"uid": self.uid}})
            case _:
                return web.json_response({"code": 404, "reason": "NotFound"}, status=404)


@pytest.fixture
async def cluster() -> Cluster:
    """Return one with our Node, and no pod."""
    return Cluster()


@pytest.fixture
async def api(cluster: Cluster) -> AsyncIterator[ApiServer]:
    """Reach it."""
    app = web.Application()
    app.router.add_get("/{path:.*}", cluster.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with ApiServer(Kubeconfig(f"http://127.0.0.1:{runner.addresses[0][1]}")) as reached:
        yield reached
    await runner.cleanup()


def source(api: ApiServer, folder: Path) -> ApiSource:
    """Make what a poller that has just started has."""
    return ApiSource(api, "n", ClusterIdentity(api, folder / "cluster.uid"))


@pytest.mark.parametrize(
    ("pods", "node", "gone"),
    [
        pytest.param([], True, True, id="there-is-none"),
        pytest.param([UID], True, False, id="it-is-there"),
        pytest.param(["uid-2"], True, True, id="another-one-of-its-name"),
        pytest.param([], False, False, id="our-node-is-not-known"),
    ],
)
async def test_gone(
    cluster: Cluster, api: ApiServer, tmp_path: Path, pods: list[str], *, node: bool, gone: bool
) -> None:
    """Each row is what the API has of the pod's name, and whether it has our Node."""
    cluster.pods, cluster.node = pods, node
    assert await source(api, tmp_path).is_gone("default", "web", UID) is gone


async def test_an_etcd_that_was_lost_empties_no_node(cluster: Cluster, api: ApiServer, tmp_path: Path) -> None:
    """Also after a restart of the poller and when our Node is registered anew; until the cluster is the old one again."""
    assert await source(api, tmp_path).is_gone("default", "web", UID)
    cluster.uid = "cluster-2"
    assert not await source(api, tmp_path).is_gone("default", "web", UID)
    cluster.uid = "cluster-1"
    assert await source(api, tmp_path).is_gone("default", "web", UID)
    cluster.uid = "cluster-3"
    (tmp_path / "cluster.uid").unlink()
    assert await source(api, tmp_path).is_gone("default", "web", UID)


async def test_a_server_with_an_etcd_that_is_still_empty_confirms_nothing(
    cluster: Cluster, api: ApiServer, tmp_path: Path
) -> None:
    """Its Service comes a moment later, and our Node may be registered anew before that."""
    assert await source(api, tmp_path).is_gone("default", "web", UID)
    cluster.uid = ""
    assert not await source(api, tmp_path).is_gone("default", "web", UID)


async def test_a_cluster_that_does_not_say_which_it_is_is_believed(
    cluster: Cluster, api: ApiServer, tmp_path: Path
) -> None:
    """As a kubelet believes every one."""
    cluster.uid = ""
    assert await source(api, tmp_path).is_gone("default", "web", UID)


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_an_api_server_in_trouble_confirms_nothing(
    cluster: Cluster, api: ApiServer, tmp_path: Path, status: int
) -> None:
    """It is asked again."""
    cluster.status = status
    with pytest.raises(ApiAway):
        await source(api, tmp_path).is_gone("default", "web", UID)


async def test_many_pods_ask_for_the_node_once(cluster: Cluster, api: ApiServer, tmp_path: Path) -> None:
    """A drained node asks for each pod, and once for the rest."""
    one = source(api, tmp_path)
    for _ in range(5):
        assert await one.is_gone("default", "web", UID)
    assert len(cluster.asked) == 5 + 2
