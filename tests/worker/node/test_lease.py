"""Is a heartbeat one request normally, and does it recover whatever happened to its Lease?"""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from activities.clients.api_server.api_server import ApiServer
from activities.clients.api_server.kubeconfig import Kubeconfig
from worker.node.lease import Lease, micro_time, renewed

NODE = {"metadata": {"name": "n1", "uid": "node-uid"}}
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


class Server:
    """An API server with one Lease and one Node, which records requests and can be told to fail."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.lease: dict[str, Any] | None = None
        self.node: dict[str, Any] | None = NODE
        self.failing: list[int] = []
        """Statuses of the next PUTs."""
        self.app = web.Application()
        self.app.router.add_get("/api/v1/nodes/n1", self.get_node)
        self.app.router.add_get(f"{LEASES}/n1", self.get)
        self.app.router.add_post(LEASES, self.create)
        self.app.router.add_put(f"{LEASES}/n1", self.replace)

    async def get_node(self, _: web.Request) -> web.Response:
        """Answer the Node."""
        self.asked.append("GET node")
        return web.json_response(self.node or {"reason": "NotFound"}, status=200 if self.node else 404)

    async def get(self, _: web.Request) -> web.Response:
        """Answer the Lease."""
        self.asked.append("GET")
        return web.json_response(self.lease or {"reason": "NotFound"}, status=200 if self.lease else 404)

    async def create(self, request: web.Request) -> web.Response:
        """Store a Lease."""
        self.asked.append("POST")
        return self._keep(await request.json())

    async def replace(self, request: web.Request) -> web.Response:
        """Update the Lease, unless the version is outdated."""
        self.asked.append("PUT")
        body = await request.json()
        if self.failing:
            return web.json_response({}, status=self.failing.pop(0))
        if self.lease is None:
            return web.json_response({"reason": "NotFound"}, status=404)
        if body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            return web.json_response({"reason": "Conflict"}, status=409)
        return self._keep(body)

    def written_by_others(self) -> None:
        """Let somebody else update it."""
        assert self.lease is not None
        self._keep(self.lease)

    def _keep(self, body: dict[str, Any]) -> web.Response:
        version = int(body["metadata"].get("resourceVersion", "0")) + 1
        self.lease = {**body, "metadata": {**body["metadata"], "resourceVersion": str(version)}}
        return web.json_response(self.lease)


@pytest.fixture
def server() -> Server:
    """Return a server."""
    return Server()


@pytest.fixture
async def lease(server: Server) -> AsyncIterator[Lease]:
    """Return the node's Lease on it."""
    async with TestServer(server.app) as running:
        address = str(running.make_url("")).rstrip("/")
        async with ApiServer(Kubeconfig(server=address)) as api:
            yield Lease(api, "n1", 40)


async def test_a_heartbeat_is_one_request(server: Server, lease: Lease) -> None:
    """After the first one, which creates it; its owner is the Node."""
    assert await lease.renew()
    assert server.asked == ["GET", "GET node", "POST", "PUT"]
    assert server.lease is not None
    assert server.lease["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "node-uid"}
    ]
    assert (server.lease["spec"]["holderIdentity"], server.lease["spec"]["leaseDurationSeconds"]) == ("n1", 40)
    server.asked.clear()
    assert await lease.renew()
    assert server.asked == ["PUT"]


async def test_a_lease_that_was_there_is_taken(server: Server, lease: Lease) -> None:
    """Of an earlier process; one without an owner gets it."""
    server.lease = {"metadata": {"name": "n1", "resourceVersion": "7"}, "spec": {"holderIdentity": "n1"}}
    assert await lease.renew()
    assert server.asked == ["GET", "GET node", "PUT"]
    assert server.lease["metadata"]["ownerReferences"][0]["uid"] == "node-uid"


async def test_without_a_node_there_is_no_lease(server: Server, lease: Lease) -> None:
    """It would have no owner, and stay for ever."""
    server.node = None
    assert not await lease.renew()
    assert server.asked == ["GET", "GET node"]
    assert server.lease is None
    server.node = NODE
    assert await lease.renew()


async def test_a_lease_that_others_wrote_or_deleted_is_renewed_all_the_same(server: Server, lease: Lease) -> None:
    """In the same heartbeat."""
    assert await lease.renew()
    server.written_by_others()
    assert await lease.renew()
    server.lease = None
    assert await lease.renew()
    assert server.lease


@pytest.mark.parametrize("status", [500, 429, 403])
async def test_an_api_server_that_says_no_is_asked_again_later(server: Server, lease: Lease, status: int) -> None:
    """Without an exception and without a tight loop."""
    assert await lease.renew()
    server.asked.clear()
    server.failing = [status]
    assert not await lease.renew()
    assert server.asked == ["PUT"]
    assert await lease.renew()


def test_a_renewed_lease_keeps_what_it_does_not_know() -> None:
    """Such as those of a newer API."""
    now = datetime(2026, 11, 22, 12, 0, 0, 5, tzinfo=UTC)
    before: dict[str, Any] = {
        "metadata": {"name": "n1"},
        "spec": {"holderIdentity": "n1", "strategy": "x", "leaseDurationSeconds": 9},
    }
    after = renewed(before, 40, now)
    assert after["spec"] == {
        "holderIdentity": "n1",
        "strategy": "x",
        "leaseDurationSeconds": 40,
        "renewTime": "2026-11-22T12:00:00.000005Z",
    }
    assert micro_time(now) == after["spec"]["renewTime"]
    assert before["spec"]["leaseDurationSeconds"] == 9
