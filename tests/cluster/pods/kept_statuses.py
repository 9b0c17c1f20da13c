"""Pods bound to a node that does not exist, with statuses written by the test as their workflows would, for the real keeper."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final
from uuid import uuid4

from activities.clients.api_server.api_server import ApiServer, Json
from proto.pod_snapshot import PodSnapshot
from tests.cluster.api import Api
from tests.cluster.cluster_node import pods_path
from tests.node.tempolet_node import pod_manifest
from worker.status.keeper import StatusKeeper

NODE: Final = "status-keeper"


class Watched(ApiServer):
    """Our client, with a record of its calls."""

    asked: list[tuple[str, Any]]

    async def call(self, method: str, path: str, **more: Any) -> Json:
        """Record a call and make it."""
        content = more.get("content")
        self.asked.append((method, content.body if content else None))
        return await super().call(method, path, **more)

    @property
    def patches(self) -> list[Any]:
        """Return the patches, in order."""
        return [body for method, body in self.asked if method == "PATCH"]


@contextlib.asynccontextmanager
async def keeping(server: ApiServer, *known: PodSnapshot) -> AsyncIterator[StatusKeeper]:
    """Run a keeper while the block runs."""
    keeper = StatusKeeper(server, NODE)
    running = asyncio.create_task(keeper.keep(known))
    try:
        yield keeper
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


def create(api: Api, name: str, annotations: Mapping[str, str] | None = None) -> Any:
    """Create a pod that is bound to the node; with the annotation, a mirror pod."""
    made = pod_manifest(name)
    made["metadata"]["annotations"] = dict(annotations or {})
    spec = {**made["spec"], "nodeName": NODE, "automountServiceAccountToken": False}
    return api.create(pods_path(), {**made, "spec": spec})


def says(pod: Mapping[str, Any], lifecycle: str = "sync", source: str = "api", **status: Any) -> PodSnapshot:
    """Publish a pod's status as its workflow does."""
    meta = pod["metadata"]
    return PodSnapshot(
        workflow_id="", node=NODE, namespace=meta["namespace"], name=meta["name"], uid=meta["uid"], source=source,
        path="", lifecycle=lifecycle, status={"qosClass": "BestEffort"} | status,
    )  # fmt: skip


async def until(api: Api, pod: Mapping[str, Any], holds: Callable[[Any], bool]) -> Any:
    """Wait until the pod in the API satisfies a condition; returns its status."""
    name = pod["metadata"]["name"]
    found = await asyncio.to_thread(api.until, pods_path(name=name), lambda one: holds(one["status"]), name)
    return found["status"]


async def settled(keeper: StatusKeeper, api: Api) -> None:
    """Wait until the keeper has handled everything so far, by a pod that comes after it."""
    last = await asyncio.to_thread(create, api, f"last-{uuid4().hex[:8]}")
    keeper.publish(says(last, phase="Running"))
    await until(api, last, lambda status: status["phase"] == "Running")
