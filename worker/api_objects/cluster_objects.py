"""All that a cluster's worker knows of objects: who reads them, who renews tokens, and who tells the pods.

Made by `host.api_side` before the activities' services, which take `source` and `tokens` from it; it hears each snapshot that a workflow
publishes, and the loops run while the worker works.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, Final

from activities.clients.api_server.api_server import ApiServer
from activities.clients.api_server.resources import SERVICES
from activities.clients.csi_drivers import CsiDrivers
from activities.cri_config.service_links import ServicesUnknown, service_fields
from proto.pod_snapshot import PodSnapshot
from worker.api_objects.csi_node import CsiNodeKeeper
from worker.api_objects.followed_kind import FollowedKind, NotRead
from worker.api_objects.rotation import TokenRotation
from worker.api_objects.source import ApiObjects
from worker.api_objects.telling import ObjectTelling, Tell
from worker.api_objects.tokens import ApiTokens
from worker.api_objects.trust_bundles import ApiTrustBundles
from worker.documents.defects import in_spite_of_defects
from worker.temporal.signal_numbers import SignalNumbers

TOGETHER: Final = 0.2
"""Seconds in which pods that show something else are looked at together: each look is at all pods of the node."""


class ClusterObjects:
    """The objects of one node's pods; made in the event loop, hears of pods from any thread."""

    def __init__(self, api: ApiServer, node: str, numbers: SignalNumbers) -> None:
        self._api, self._node, self._numbers = api, node, numbers
        self._loop = asyncio.get_running_loop()
        self._changed, self._other_tokens = asyncio.Event(), asyncio.Event()
        self._snapshots: Callable[[], Iterable[PodSnapshot]] = tuple
        self._heard: dict[str, Mapping[str, str]] = {}
        """By pod uid: the versions that a pod showed last."""
        self._waking: asyncio.TimerHandle | None = None
        self.source = ApiObjects(api, self._pods, self._changed.set)
        self.tokens = ApiTokens(api)
        self.trust_bundles = ApiTrustBundles(api, self._changed.set)
        self._services = FollowedKind(api, SERVICES, cut=service_fields)

    async def services(self) -> Iterable[Mapping[str, Any]]:
        """Give all Services of the cluster; raises ServicesUnknown."""
        try:
            return [one.json for one in (await self._services.all()).values()]
        except NotRead as error:
            raise ServicesUnknown(str(error)) from error

    def hear(self, snapshot: PodSnapshot) -> None:
        """Take notice of a snapshot; returns at once, and does nothing unless the pod shows something else now."""
        if self._heard.get(snapshot.uid, {}) == (shown := {} if snapshot.deleting else snapshot.objects):
            return
        if shown:
            self._heard[snapshot.uid] = shown
        else:
            self._heard.pop(snapshot.uid, None)
        with contextlib.suppress(RuntimeError):  # the loop has ended: nobody is told of anything any more
            self._loop.call_soon_threadsafe(self._wake_soon)

    @contextlib.asynccontextmanager
    async def telling(
        self, snapshots: Callable[[], Iterable[PodSnapshot]], tell: Tell, drivers: CsiDrivers
    ) -> AsyncIterator[None]:
        """Tell pods of what changes, renew tokens and keep the CSINode while the block runs.

        `snapshots` are the newest of all pods.
        """
        self._snapshots = snapshots
        objects = ObjectTelling(self.source.watched, self.trust_bundles, self._pods, tell, numbers=self._numbers)
        rotation = TokenRotation(self.tokens, self._pods, tell)
        self._services.follow()  # the first container that starts shall not wait for them
        running = {
            "changed objects": lambda: objects.run(self._changed),
            "token rotation": lambda: rotation.run(self._other_tokens),
            "CSINode": CsiNodeKeeper(self._api, self._node, drivers).run,
        }
        loops = [asyncio.create_task(in_spite_of_defects(what, loop), name=what) for what, loop in running.items()]
        try:
            yield
        finally:
            for loop in loops:
                loop.cancel()
            await asyncio.gather(*loops, return_exceptions=True)
            await self.source.stop()
            await self._services.stop()
            await self.trust_bundles.stop()

    def _pods(self) -> Iterable[PodSnapshot]:
        return self._snapshots()

    def _wake_soon(self) -> None:
        if self._waking is None:
            self._waking = self._loop.call_later(TOGETHER, self._wake)

    def _wake(self) -> None:
        self._waking = None
        self._changed.set()
        self._other_tokens.set()
        self.tokens.forget(frozenset(one.uid for one in self._pods()))
