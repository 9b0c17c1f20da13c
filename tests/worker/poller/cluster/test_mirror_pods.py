"""Does each static pod have one mirror pod of its version and Node, and does nothing wait for it?"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from activities.clients.api_server.errors import ApiAway, ApiRefused
from tests.worker.poller.manifests.manifests import static_pod
from tests.worker.poller.noted_calls import NotedCalls
from worker.poller.cluster.api_pod import ApiPod
from worker.poller.cluster.mirror_pods import (
    Call,
    CreateMirror,
    DeleteMirror,
    MirrorPods,
    StaticPods,
    mirror_of,
    next_call,
)
from worker.poller.manifests.static_pod import StaticPod

NAME, HASH, NODE_UID = "default/web", "0" * 32, "node-1"
WEB = static_pod(Path("/m/web.yaml"), "web", HASH, {"kubernetes.io/config.hash": HASH, "tempolet.dev/node": "n"})
MIRROR = ApiPod({}, "m-1", "default", "web", mirror=HASH, owner_uid=NODE_UID)


def statics(*desired: StaticPod, complete: bool = True, **known: Any) -> StaticPods:
    """Say which static pods there are."""
    by_name = {f"{pod.namespace}/{pod.name}": pod for pod in desired}
    return StaticPods(by_name, **{"terminating": frozenset[str](), "complete": complete, **known})


OLD_ENDS = statics(WEB, replaced=frozenset({NAME}))
OLDER = replace(MIRROR, mirror="1" * 32)


@pytest.mark.parametrize(
    ("known", "mirror", "node_uid", "call"),
    [
        pytest.param(statics(WEB), None, NODE_UID, CreateMirror(WEB, NODE_UID), id="none-yet"),
        pytest.param(statics(WEB), None, "", None, id="no-node-object-to-belong-to"),
        pytest.param(statics(WEB), MIRROR, NODE_UID, None, id="as-it-should-be"),
        pytest.param(statics(WEB), replace(MIRROR, deleted=True), NODE_UID, DeleteMirror, id="deleted-by-somebody"),
        pytest.param(statics(WEB), OLDER, NODE_UID, DeleteMirror, id="of-an-older-version"),
        pytest.param(OLD_ENDS, OLDER, NODE_UID, None, id="of-an-older-version-that-still-stops"),
        pytest.param(
            statics(WEB, open_known=False), OLDER, NODE_UID, None, id="while-it-is-unknown-whether-that-stops"
        ),
        pytest.param(OLD_ENDS, None, NODE_UID, None, id="none-while-the-older-version-stops"),
        pytest.param(OLD_ENDS, replace(OLDER, deleted=True), NODE_UID, DeleteMirror, id="deleted-meanwhile"),
        pytest.param(statics(WEB), replace(MIRROR, owner_uid="node-0"), NODE_UID, DeleteMirror, id="of-an-older-node"),
        pytest.param(statics(WEB), MIRROR, "", None, id="while-our-node-is-not-known"),
        pytest.param(statics(), MIRROR, NODE_UID, DeleteMirror, id="its-pod-is-gone"),
        pytest.param(statics(terminating=frozenset({NAME})), MIRROR, NODE_UID, None, id="its-pod-is-going"),
        pytest.param(statics(complete=False), MIRROR, NODE_UID, None, id="a-source-that-cannot-be-read"),
        pytest.param(statics(), None, NODE_UID, None, id="nothing-at-all"),
    ],
)
def test_what_a_mirror_needs(known: StaticPods, mirror: ApiPod | None, node_uid: str, call: Call | type | None) -> None:
    """Each row is what is known of one name."""
    found = next_call(NAME, known, mirror, node_uid)
    assert found == call if not isinstance(call, type) else isinstance(found, call)


def test_what_a_mirror_says() -> None:
    """The pod's spec and marks, whom it belongs to, and no uid: the API gives it one of its own."""
    made = mirror_of(WEB, "n", NODE_UID)
    assert made["metadata"] == {
        "name": "web",
        "namespace": "default",
        "annotations": {"kubernetes.io/config.hash": HASH, "kubernetes.io/config.mirror": HASH},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": NODE_UID, "controller": True}],
    }
    assert made["spec"] == WEB.pod["spec"]


class Api(NotedCalls):
    """Keeps mirrors as an API server does, or fails as it is told."""

    async def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create one."""
        self.note(f"create {path}")
        return {**body, "metadata": {**body["metadata"], "uid": f"m-{len(self.calls)}"}}

    async def delete(self, path: str, options: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Delete one."""
        assert options is not None
        assert path.endswith("/web")
        self.note(f"delete {options['preconditions']['uid']}")
        return {}


CREATE = "create /api/v1/namespaces/default/pods"


async def test_a_mirror_lives_as_long_as_its_pod() -> None:
    """Made, made again when somebody deletes it, and taken away in the end."""
    api, now = Api(), [statics(WEB)]
    mirrors = MirrorPods(api, "n", lambda: NODE_UID, lambda: now[0])
    keeping = asyncio.create_task(mirrors.keep())
    await asyncio.sleep(0)
    assert api.calls == []  # nothing is known of the API yet
    mirrors.set_listed([])
    await api.until(1)
    mirrors.set_changed(replace(MIRROR, deleted=True))
    await api.until(3)
    now[0] = statics()
    mirrors.look_again()
    await api.until(4)
    assert api.calls == [CREATE, "delete m-1", CREATE, "delete m-3"]
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(ApiAway("away"), id="an-api-server-that-is-away"),
        pytest.param(
            ApiRefused(404, "NotFound", "namespaces default not found"), id="a-namespace-that-is-not-there-yet"
        ),
    ],
)
async def test_what_fails_is_tried_again(failure: Exception) -> None:
    """At once where something changes, else after a while."""
    api = Api()
    api.failures = [failure]
    mirrors = MirrorPods(api, "n", lambda: NODE_UID, lambda: statics(WEB))
    keeping = asyncio.create_task(mirrors.keep())
    mirrors.set_listed([])
    await api.until(1)
    mirrors.look_again()
    await api.until(2)
    assert api.calls == [CREATE, CREATE]
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)


async def test_a_mirror_that_is_gone_already_is_gone() -> None:
    """Another one of that name is not touched: the uid is a precondition."""
    api = Api()
    api.failures = [ApiRefused(409, "Conflict", "the uid differs")]
    mirrors = MirrorPods(api, "n", lambda: NODE_UID, statics)
    keeping = asyncio.create_task(mirrors.keep())
    mirrors.set_listed([MIRROR])
    await api.until(1)
    mirrors.look_again()
    await asyncio.sleep(0)
    assert api.calls == ["delete m-1"]
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)


async def test_a_change_asks_once_which_static_pods_there_are() -> None:
    """However many: each mirror's status comes as a change, and a node has a hundred."""
    asked: list[StaticPods] = []
    many = [replace(WEB, name=f"web-{number}") for number in range(100)]

    def ask() -> StaticPods:
        asked.append(statics(*many))
        return asked[-1]

    mirrors = MirrorPods(Api(), "n", lambda: NODE_UID, ask)
    keeping = asyncio.create_task(mirrors.keep())
    mirrors.set_listed([replace(MIRROR, name=pod.name) for pod in many])
    await asyncio.sleep(0)
    assert len(asked) == 1
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
