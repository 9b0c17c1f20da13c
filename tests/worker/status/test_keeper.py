"""Does the keeper recover when pods, or the API server's state, are lost and come back?

The server's responses are scripted.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from activities.clients.api_server.api_server import ApiAway, ApiRefused, ApiServer, Content, Json
from proto.pod_snapshot import PodSnapshot
from tests.patience import PATIENCE
from worker.status.keeper import StatusKeeper, keeping_statuses


def pod(version: int, phase: str = "Pending") -> Json:
    """Return the pod as the server has it."""
    meta: Json = {"namespace": "default", "name": "web", "uid": "uid-1", "resourceVersion": str(version)}
    return {"metadata": meta, "status": {"phase": phase}}


class Scripted(ApiServer):
    """A server that lists what it is told to, and ends its watch when that changes."""

    def __init__(self) -> None:
        self.items: list[Json] = [pod(1)]
        self.version = 1
        self.patches: asyncio.Queue[Any] = asyncio.Queue()
        self.changed = asyncio.Event()
        self.asked_in_vain = asyncio.Event()

    async def call(self, method: str, path: str, *, content: Content | None = None, **_: Any) -> Json:
        """Answer a list, one pod or a patch."""
        if path == "/api/v1/pods":
            return {"kind": "PodList", "apiVersion": "v1", "items": self.items, "metadata": {"resourceVersion": "9"}}
        if not self.items:
            self.asked_in_vain.set()
            raise ApiRefused(404, "NotFound", 'pods "web" not found')
        if method == "PATCH" and content:
            self.patches.put_nowait(content.body["status"])
            self.version += 1
            self.items = [pod(self.version, content.body["status"]["phase"])]
        return self.items[0]

    async def watch(self, *_: Any, **__: Any) -> AsyncIterator[Json]:
        """Send no events until it has to be listed again."""
        await self.changed.wait()
        self.changed.clear()
        raise ApiRefused(410, "Expired", "too old")
        yield {}

    def now_has(self, *items: Json) -> None:
        """Replace the pods, and end the watches."""
        self.items = list(items)
        self.changed.set()


def says(phase: str, source: str = "api", lifecycle: str = "sync") -> PodSnapshot:
    """Publish a snapshot as the pod's workflow does."""
    told = PodSnapshot("", "n1", "default", "web", "uid-1", source, "", lifecycle, status={"phase": phase})
    return replace(told, deleting=lifecycle == "terminated")


@contextlib.asynccontextmanager
async def keeping(server: ApiServer) -> AsyncIterator[StatusKeeper]:
    """Keep statuses with this server, for ten seconds at most."""
    keeper = StatusKeeper(server, "n1")
    async with asyncio.timeout(PATIENCE), keeping_statuses(keeper, []):
        yield keeper


async def test_an_etcd_that_was_restored_from_a_backup_is_told_anew() -> None:
    """Its state is older than before, and still valid."""
    server = Scripted()
    server.version = 20
    async with keeping(server) as keeper:
        keeper.publish(says("Running"))
        assert (await server.patches.get())["phase"] == "Running"
        server.now_has(pod(5))
        assert (await server.patches.get())["phase"] == "Running"


async def test_a_static_pod_that_comes_back_is_told_of_again() -> None:
    """The same manifest has the same UID, and its new mirror pod has no status."""
    server = Scripted()
    mirror = {"annotations": {"kubernetes.io/config.mirror": "uid-1"}}
    first, second = pod(1), pod(30)
    first["metadata"] |= mirror | {"uid": "mirror-1"}
    second["metadata"] |= mirror | {"uid": "mirror-2"}
    server.items = [first]
    async with keeping(server) as keeper:
        keeper.publish(says("Running", "file"))
        assert (await server.patches.get())["phase"] == "Running"
        keeper.publish(says("Failed", "file", "terminated"))
        await asyncio.sleep(0)  # it is processed separately from the next one
        server.now_has(second)
        keeper.publish(says("Running", "file"))
        assert (await server.patches.get())["phase"] == "Running"


async def test_an_end_is_told_once_no_claim_is_prepared_any_more() -> None:
    """The API frees the devices of a claim whose pod has a final phase."""
    server = Scripted()
    server.items = [pod(1, "Running")]
    ended = says("Succeeded", lifecycle="terminated")
    async with keeping(server) as keeper:
        keeper.publish(replace(ended, may_have_claims=True, status={"phase": "Succeeded", "hostIP": "10.0.0.1"}))
        held = await server.patches.get()
        assert held["hostIP"] == "10.0.0.1"
        assert "phase" not in held
        keeper.publish(ended)
        assert (await server.patches.get())["phase"] == "Succeeded"


async def test_pods_that_come_back_are_told_of_again() -> None:
    """An etcd that was empty and is then restored: the pods are still there, and need their status."""
    server = Scripted()
    async with keeping(server) as keeper:
        keeper.publish(says("Running"))
        assert (await server.patches.get())["phase"] == "Running"
        server.now_has()
        keeper.publish(says("Unknown"))
        await server.asked_in_vain.wait()
        assert server.patches.empty(), "there is no such pod to tell of"
        server.now_has(pod(7, "Running"))
        assert (await server.patches.get())["phase"] == "Unknown"


def is_ready(status: str) -> dict[str, Any]:
    """Return the condition."""
    return {"type": "Ready", "status": status}


class Lagging(Scripted):
    """A server whose watch events are sent by the test."""

    def __init__(self) -> None:
        super().__init__()
        self.events: asyncio.Queue[Json] = asyncio.Queue()

    def write(self, status: Json) -> Json:
        """Write into the pod's status; returns the pod afterwards."""
        self.version += 1
        self.items = [pod(self.version) | {"status": self.items[0]["status"] | status}]
        return self.items[0]

    async def call(self, method: str, path: str, *, content: Content | None = None, **more: Any) -> Json:
        """Apply a patch as a server does, as far as the test needs it."""
        if method != "PATCH" or content is None:
            return await super().call(method, path, content=content, **more)
        told = {name: value for name, value in content.body["status"].items() if not name.startswith("$")}
        self.patches.put_nowait(told)
        return self.write(told)

    async def watch(self, *_: Any, **__: Any) -> AsyncIterator[Json]:
        """Send the test's events."""
        while True:
            yield {"type": "MODIFIED", "object": await self.events.get()}


async def test_what_somebody_wrote_just_before_us_is_written_over() -> None:
    """The event comes after the response to our own patch; meanwhile a controller has set the pod unready."""
    server = Lagging()
    told = {"phase": "Running", "conditions": [is_ready("True")]}
    async with keeping(server) as keeper:
        keeper.publish(replace(says("Running"), status=told))
        assert (await server.patches.get())["conditions"] == [is_ready("True")]
        unready = server.write({"conditions": [is_ready("False")]})
        keeper.publish(replace(says("Running"), status=told | {"message": "new"}))
        assert await server.patches.get() == {"message": "new"}
        server.events.put_nowait(unready)
        assert (await server.patches.get())["conditions"] == [{"type": "Ready", "status": "True"}]


class Half(Scripted):
    """A server that fails with one of two pods, as with a webhook."""

    def __init__(self) -> None:
        super().__init__()
        bad = pod(1)
        bad["metadata"] |= {"name": "bad", "uid": "uid-2"}
        self.items.append(bad)
        self.asked: list[str] = []

    async def call(self, method: str, path: str, *, content: Content | None = None, **more: Any) -> Json:
        """Fail with the patches of one."""
        if method == "PATCH":
            self.asked.append(path.split("/")[-2])
            if "/bad/" in path:
                self.asked_in_vain.set()
                raise ApiAway("500 failed calling webhook", status=500)
        return await super().call(method, path, content=content, **more)


async def test_a_pod_with_which_the_server_fails_holds_up_no_other() -> None:
    """It is retried separately; only a server that does not answer, or asks to wait, holds up all."""
    server = Half()
    async with keeping(server) as keeper:
        keeper.publish(replace(says("Running"), name="bad", uid="uid-2"))
        await server.asked_in_vain.wait()
        keeper.publish(says("Running"))
        await server.patches.get()
        assert server.asked == ["bad", "web"]


class Obedient(Scripted):
    """A server that keeps the whole status, as a real one does."""

    async def call(self, method: str, path: str, *, content: Content | None = None, **more: Any) -> Json:
        """Answer as the other, and with all that was patched."""
        found = await super().call(method, path, content=content, **more)
        if method == "PATCH" and content:
            found["status"] |= {key: value for key, value in content.body["status"].items() if not key.startswith("$")}
        return found


async def test_it_is_settled_when_the_server_has_every_status() -> None:
    """What a machine that goes down waits for."""
    server = Obedient()
    async with keeping(server) as keeper:
        keeper.publish(says("Running"))
        assert not keeper.is_settled
        assert (await server.patches.get())["phase"] == "Running"
        while not keeper.is_settled:  # noqa: ASYNC110 - the answer to the patch is on its way
            await asyncio.sleep(0.01)


async def test_the_health_of_devices_is_shown_and_told_when_it_changes() -> None:
    """Though the pod's workflow has published nothing new; a container without devices shows none."""
    server, health = Scripted(), "Healthy"

    def told(uid: str, container: str) -> list[Json]:
        entry = {"name": "example.com/gpu", "resources": [{"resourceID": "a", "health": health}]}
        return [entry] if (uid, container) == ("uid-1", "gpu") else []

    async with keeping(server) as keeper:
        keeper.resource_health.append(told)
        containers = [{"name": "gpu"}, {"name": "other"}]
        keeper.publish(replace(says("Running"), status={"phase": "Running", "containerStatuses": containers}))
        assert (await server.patches.get())["containerStatuses"] == [
            {"name": "gpu", "allocatedResourcesStatus": told("uid-1", "gpu")},
            {"name": "other"},
        ]
        health = "Unhealthy"
        keeper.look_again(["uid-1", "unknown"])
        patched = (await server.patches.get())["containerStatuses"][0]["allocatedResourcesStatus"]
        assert patched[0]["resources"] == [{"resourceID": "a", "health": "Unhealthy"}]
