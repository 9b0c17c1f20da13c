"""How does the node handle its object when the API server refuses, is unavailable, or has another object of its name?"""

import asyncio
import copy
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from activities.clients.api_server.api_server import ApiServer
from activities.clients.api_server.kubeconfig import Kubeconfig
from activities.clients.runtime import RuntimeClient
from activities.clients.start_limit import StartLimit
from worker.daemon.config import NodeConfig
from worker.daemon.health import LoopHealth
from worker.daemon.service import Service
from worker.machine.machine import Machine
from worker.node.object.conditions import NodeEvent
from worker.node.object.own_node import TRIES, NodeCallbacks, OwnNode
from worker.node.object.status import NodeFacts, NodeSettings
from worker.node.process.dependencies import NodeDependencies
from worker.node.process.peers import PeerProcesses
from worker.node.runtime.state import RuntimeState
from worker.settings.cluster import ClusterSettings

SETTINGS = NodeSettings(name="n1", kubelet_version="v1", max_pods=110, port=10250)


class Server:
    """An API server with one Node, which records requests and answers as configured."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.node: dict[str, Any] | None = None
        self.answers: dict[str, list[int]] = {}
        """Statuses that override the next responses to a method."""
        self.patched: Callable[[], None] = lambda: None
        """Called before a patch is answered."""
        self.app = web.Application()
        self.app.router.add_route("*", "/{path:.*}", self.answer)

    async def answer(self, request: web.Request) -> web.Response:
        """Answer one request."""
        method = request.method
        self.asked.append(method)
        if told := self.answers.get(method):
            status = told.pop(0)
            return web.json_response({"message": f"told {status}"}, status=status, headers={"Retry-After": "1"})
        if method == "POST":
            if self.node:
                return web.json_response({"reason": "AlreadyExists"}, status=409)
            self.node = await request.json()
            self.node["metadata"]["uid"] = f"uid-{len(self.asked)}"
        elif self.node is None:
            return web.json_response({"reason": "NotFound"}, status=404)
        elif method == "PATCH":
            patch = await request.json()
            if patch["metadata"]["uid"] != self.node["metadata"]["uid"]:
                return web.json_response({"reason": "Conflict"}, status=409)
            conditions = {one["type"]: one for one in self.node.get("status", {}).get("conditions", ())}
            for one in patch.get("status", {}).pop("conditions", ()):
                conditions[one["type"]] = conditions.get(one["type"], {}) | one
            status = self.node.get("status", {}) | patch.get("status", {})
            self.node["status"] = status | {"conditions": list(conditions.values())}
            found = copy.deepcopy(self.node)
            self.patched()
            return web.json_response(found)
        return web.json_response(self.node)


@pytest.fixture
def server() -> Server:
    """Return a server."""
    return Server()


class Machines:
    """The machine's facts; a test may change them."""

    def __init__(self) -> None:
        self.image = "Debian"
        self.volumes: tuple[str, ...] = ()
        self.told: list[str] = []

    async def facts(self) -> NodeFacts:
        """Return them."""
        ready = RuntimeState(last_ready=datetime.now(UTC), network_trouble="", images=())
        return NodeFacts(
            machine=Machine(os_image=self.image),
            runtime=ready,
            addresses=("10.0.0.1",),
            volumes_in_use=self.volumes,
        )

    def tell(self, events: Any) -> None:
        """Record events."""
        self.told += [one.reason for one in events if isinstance(one, NodeEvent)]


@pytest.fixture
def machine() -> Machines:
    """Return the test's machine."""
    return Machines()


@pytest.fixture
async def node(server: Server, machine: Machines, tmp_path: Path) -> AsyncIterator[OwnNode]:
    """Return the node's object, not registered yet."""
    cluster = ClusterSettings(kubeconfig=tmp_path / "kubeconfig")
    config = NodeConfig("n1", root_dir=tmp_path, cluster=cluster)
    runtime = RuntimeClient("unix:///nowhere", StartLimit(1))
    async with TestServer(server.app) as running:
        address = str(running.make_url("")).rstrip("/")
        async with ApiServer(Kubeconfig(server=address)) as api:
            around = NodeDependencies(
                config=config,
                cluster=cluster,
                api=api,
                runtime=runtime,
                service=Service(LoopHealth("node"), {}),
                processes=PeerProcesses(tmp_path),
            )
            yield OwnNode(around, SETTINGS, NodeCallbacks(machine.facts, machine.tell, lambda _: None))
    await runtime.close()


async def test_the_volumes_in_use_are_told(server: Server, machine: Machines, node: OwnNode) -> None:
    """As the API server has them, with each look at the status, also if there was nothing to send."""
    told: asyncio.Queue[list[str]] = asyncio.Queue()

    async def tell(names: Any) -> None:
        await told.put(list(names))

    node._callbacks = replace(node._callbacks, volumes_reported=tell)
    reporting = asyncio.create_task(node._report())
    async with asyncio.timeout(30):
        assert await told.get() == []
        machine.volumes = ("a",)
        server.answers["PATCH"] = [403] * TRIES
        for expected in ([], ["a"], ["a"]):
            node._callbacks.sync_now.set()
            assert await told.get() == expected
    reporting.cancel()
    await asyncio.gather(reporting, return_exceptions=True)


async def test_what_does_not_change_is_not_sent(server: Server, machine: Machines, node: OwnNode) -> None:
    """One request creates it, the first sync reports it, and then only changes are sent."""
    await node._register()
    await node._sync()
    assert server.asked == ["POST", "PATCH"]
    for _ in range(3):
        await node._sync()
    assert len(server.asked) == 2
    machine.image = "Plan 9"
    await node._sync()
    assert server.asked[2:] == ["PATCH"]
    assert server.node is not None
    assert server.node["status"]["nodeInfo"]["osImage"] == "Plan 9"
    assert machine.told[-1] == "NodeReady"
    assert machine.told.count("NodeReady") == 1


@pytest.mark.parametrize(
    ("answers", "asked"),
    [
        pytest.param({"POST": [500, 503]}, ["POST", "POST", "POST"], id="away-for-a-while"),
        pytest.param({"POST": [403]}, ["POST", "GET", "POST"], id="forbidden-for-a-while"),
        pytest.param({"POST": [401]}, ["POST", "POST"], id="not-known-for-a-while"),
    ],
)
async def test_it_is_registered_as_soon_as_that_is_allowed(
    server: Server, node: OwnNode, answers: dict[str, list[int]], asked: list[str]
) -> None:
    """Retried until it succeeds; a node that may not create its object may still use an existing one."""
    server.answers = answers
    await node._register()
    assert server.asked == asked


async def test_a_node_that_may_not_make_its_object_takes_the_one_that_is_there(server: Server, node: OwnNode) -> None:
    """And sets its default labels."""
    server.node = {"metadata": {"name": "n1", "uid": "u"}}
    server.answers = {"POST": [403]}
    await node._register()
    assert server.asked == ["POST", "GET", "PATCH"]
    assert node.json is not None


@pytest.mark.parametrize(
    ("told", "asked"),
    [
        pytest.param([409], ["PATCH", "GET", "PATCH"], id="conflict"),
        pytest.param([422], ["PATCH", "GET", "PATCH"], id="not-valid-against-what-is-there"),
        pytest.param([500], ["PATCH"], id="away-and-wants-to-be-left-alone"),
        pytest.param([429], ["PATCH"], id="too-much"),
        pytest.param([403] * 9, ["PATCH"] + ["GET", "PATCH"] * 4, id="forbidden-five-tries-a-look"),
    ],
)
async def test_a_status_that_is_not_taken(server: Server, node: OwnNode, told: list[int], asked: list[str]) -> None:
    """It is computed from the newest object, sent five times at most, and again at the next sync."""
    await node._register()
    server.asked.clear()
    server.answers = {"PATCH": told}
    await node._sync()
    assert server.asked == asked
    server.answers = {}
    await node._sync()
    assert server.node is not None
    assert node._reported is not None


async def test_another_object_of_the_same_name_is_not_taken_for_ours(server: Server, node: OwnNode) -> None:
    """Deleted and created by somebody else between two syncs: it is written completely, not as a difference to the old one."""
    await node._register()
    await node._sync()
    server.node = {"metadata": {"name": "n1", "uid": "another"}}
    node._reported = None
    server.asked.clear()
    await node._sync()
    assert server.asked == ["PATCH", "GET", "PATCH"]
    assert server.node["status"]["nodeInfo"]["osImage"] == "Debian"


async def test_an_object_that_is_gone_is_to_be_made_anew(server: Server, node: OwnNode) -> None:
    """At the next sync, which starts at once."""
    await node._register()
    server.node = None
    await node._sync()
    assert node.json is None
    assert node._callbacks.sync_now.is_set()


async def test_an_object_that_goes_on_the_way_of_our_patch_s_answer_is_made_anew(server: Server, node: OwnNode) -> None:
    """The response is older than the watch event; if it were stored, there would be no Node for minutes."""
    await node._register()

    def delete() -> None:
        server.node = None
        node._observe(None)

    server.patched = delete
    await node._sync()
    assert node.json is None
    assert node._callbacks.sync_now.is_set()


async def test_what_the_watch_tells_on_the_way_of_our_patch_s_answer_is_newer(server: Server, node: OwnNode) -> None:
    """It stays the known state."""
    server.node = {"metadata": {"name": "n1", "uid": "u", "resourceVersion": "9"}}
    await node._register()
    cordoned = {"metadata": {"name": "n1", "uid": "u", "resourceVersion": "10"}, "spec": {"unschedulable": True}}
    server.patched = lambda: node._observe(cordoned)
    await node._sync()
    assert node.json is cordoned
    assert node._reported is not None


async def test_a_watch_that_lags_behind_our_own_patch_is_not_believed(server: Server, node: OwnNode) -> None:
    """Otherwise a change would be reported, and its event sent, twice."""
    server.node = {"metadata": {"name": "n1", "uid": "u", "resourceVersion": "9"}}
    await node._register()
    known = node.json
    node._observe({"metadata": {"name": "n1", "uid": "u", "resourceVersion": "8"}, "spec": {"unschedulable": True}})
    assert node.json is known
    node._observe({"metadata": {"name": "n1", "uid": "u", "resourceVersion": "10"}})
    assert node.json is not known
    node._observe({"metadata": {"name": "n1", "uid": "younger", "resourceVersion": "3"}})
    assert node.json is not None
    assert node.json["metadata"]["uid"] == "younger", "another object"


async def test_a_cordon_that_our_patch_s_answer_has_first_is_told_once(
    server: Server, node: OwnNode, machine: Machines
) -> None:
    """The watch brings the same object later."""
    await node._register()
    assert server.node is not None
    server.node["spec"] = {"unschedulable": True}
    await node._sync()
    for unschedulable, told in ((True, ["NodeNotSchedulable"]), (False, ["NodeNotSchedulable", "NodeSchedulable"])):
        server.node["spec"] = {"unschedulable": unschedulable}
        node._observe(copy.deepcopy(server.node))
        node._observe(copy.deepcopy(server.node))
        assert [one for one in machine.told if one.endswith("Schedulable")] == told
