"""A worker's objects of one node over a real API server, without workflows: the test publishes the pods' snapshots."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from activities.clients.api_server.api_server import ApiServer, Json
from activities.clients.api_server.kubeconfig import load_kubeconfig
from activities.clients.csi_drivers import CsiDrivers
from activities.objects.objects import ObjectKind, StoredObject
from activities.objects.tokens import BoundPod, TokenSpec
from proto.pod_snapshot import PodSnapshot
from proto.temporal.signals import ObjectsChanged
from tests import patience
from tests.cluster.control_plane import ControlPlane
from tests.worker.poller.snapshots import snapshot
from worker.api_objects.cluster_objects import ClusterObjects

PATIENCE: Final = patience.PATIENCE


class CountedApi(ApiServer):
    """Our client, which also reports its watches and counts its token requests."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.changed = asyncio.Condition()
        self.watching: list[str] = []
        self.tokens_asked = 0

    async def watch(self, path: str, *, seconds: int, **query: str) -> AsyncIterator[Json]:
        """Watch, and record it while it lasts."""
        which = f"{path}?{query.get('fieldSelector', '')}"
        await self._note(self.watching.append, which)
        try:
            async with contextlib.aclosing(super().watch(path, seconds=seconds, **query)) as events:  # type: ignore[type-var]  # a generator, declared as an iterator
                async for event in events:
                    yield event
        finally:
            await asyncio.shield(self._note(self.watching.remove, which))

    def singles(self) -> list[str]:
        """Return the watches of single objects."""
        return [one for one in self.watching if "metadata.name" in one]

    async def _note(self, change: Callable[[str], None], which: str) -> None:
        async with self.changed:
            change(which)
            self.changed.notify_all()

    async def create(self, path: str, body: Any) -> Json:
        """Create an object, and count token requests."""
        if path.endswith("/token"):
            self.tokens_asked += 1
        return await super().create(path, body)


@dataclass
class ObjectsNode:
    """What a test controls and inspects."""

    plane: ControlPlane
    name: str
    namespace: str
    api: CountedApi
    objects: ClusterObjects
    pods: dict[str, PodSnapshot] = field(default_factory=dict)
    drivers: CsiDrivers = field(default_factory=CsiDrivers)
    told: "asyncio.Queue[tuple[str, dict[str, str]]]" = field(default_factory=asyncio.Queue)

    def make(self, plural: str, name: str, **content: Any) -> Any:
        """Create an object in the namespace."""
        return self.plane.api.create(self.path(plural), {"metadata": {"name": name}, **content})

    def path(self, plural: str, name: str = "") -> str:
        """Return the path of a collection in the namespace, or of one of its objects."""
        return f"/api/v1/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    def bind(self, name: str, **spec: Any) -> PodSnapshot:
        """Create a pod that is bound to this node, and announce it."""
        containers = spec.pop("containers", [{"name": "c", "image": "busybox"}])
        spec = {"nodeName": self.name, "containers": containers, **spec}
        made = self.plane.api.create(self.path("pods"), {"metadata": {"name": name}, "spec": spec})
        uid = made["metadata"]["uid"]
        known = replace(snapshot(uid, node=self.name, name=name), namespace=self.namespace, pod=made)
        self.publish(known)
        return known

    def publish(self, known: PodSnapshot) -> None:
        """Publish a pod's snapshot as its workflow does."""
        self.pods[known.uid] = known
        self.objects.observe(known)

    def show(self, known: PodSnapshot, **objects: str) -> PodSnapshot:
        """Let a pod show these versions; `configmaps__app="7"` stands for configmaps/app."""
        versions = {key.replace("__", "/").replace("_", "-"): version for key, version in objects.items()}
        self.publish(shown := replace(known, objects=versions))
        return shown

    def forget(self, known: PodSnapshot) -> None:
        """Remove a pod."""
        del self.pods[known.uid]
        self.objects.observe(replace(known, deleting=True, objects={}))

    async def get(self, kind: ObjectKind, name: str) -> StoredObject:
        """Read an object as the activities do."""
        return await self.objects.source.get(kind, self.namespace, name)

    async def heard(self, seconds: float = PATIENCE) -> tuple[str, dict[str, str]]:
        """Wait for a signal to a pod's workflow; returns the pod's uid and the versions."""
        async with asyncio.timeout(seconds):
            workflow_id, versions = await self.told.get()
        return workflow_id.rpartition("/")[2], versions

    async def until_watching(self, *which: str) -> None:
        """Wait until exactly these single objects are watched, such as `configmaps/app`."""
        wanted = sorted(
            f"{self.path(plural)}?metadata.name={name}" for plural, name in (one.split("/") for one in which)
        )
        async with asyncio.timeout(PATIENCE):
            async with self.api.changed:
                await self.api.changed.wait_for(lambda: sorted(self.api.singles()) == wanted)

    def wish(self, known: PodSnapshot, audience: str = "", seconds: int = 3607) -> TokenSpec:
        """Build a request for a token of a pod's service account."""
        bound = BoundPod(self.namespace, known.name, known.uid)
        return TokenSpec(self.namespace, "default", (audience,) if audience else (), seconds, bound)


@contextlib.asynccontextmanager
async def objects_node(plane: ControlPlane, name: str) -> AsyncIterator[ObjectsNode]:
    """Create a Node object with this name and a namespace of its own, and run the worker's part for objects."""
    plane.api.create("/api/v1/nodes", {"metadata": {"name": name}})
    namespace = plane.make_namespace(f"of-{name}")
    async with CountedApi(load_kubeconfig(plane.node_kubeconfig(name))) as api:
        node = ObjectsNode(plane, name, namespace, api, ClusterObjects(api, name))

        async def tell(workflow_id: str, signal: ObjectsChanged) -> None:
            node.told.put_nowait((workflow_id, signal.versions))

        node.objects.list_drivers(node.drivers, lambda *_: None)
        async with node.objects.running(lambda: list(node.pods.values()), tell):
            yield node
    for uid, pod in node.pods.items():
        plane.api.delete(node.path("pods", pod.name), gracePeriodSeconds=0, preconditions={"uid": uid})
    plane.api.delete(f"/api/v1/nodes/{name}")
