"""The objects of a cluster's node: their source, their tokens, and the loops that renew and signal.

Created before the activities' services, which use `source` and `tokens`. It observes each snapshot that a workflow publishes;
the loops run while the worker works.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from typing import Any, Final

from activities.clients.api_server.api_server import ApiServer
from activities.clients.api_server.resources import SERVICES
from activities.clients.csi_drivers import CsiDrivers
from activities.cri_config.service_links import ServicesUnknown, service_fields
from proto.pod_snapshot import PodSnapshot
from worker.api_objects.change_signals import ObjectChangeSignals, SendSignal
from worker.api_objects.csi_node import CsiNodeKeeper
from worker.api_objects.informer import Informer, NotSynced
from worker.api_objects.source import ApiObjects
from worker.api_objects.token_rotation import TokenRotation
from worker.api_objects.tokens import ApiTokens
from worker.api_objects.trust_bundles import ApiTrustBundles
from worker.daemon.background import in_background

COALESCE_SECONDS: Final = 0.2
"""Seconds over which changes of pods are collected, because each comparison covers all pods of the node."""


class ClusterObjects:
    """The objects of one node's pods; created in the event loop, observes pods from any thread."""

    def __init__(self, api: ApiServer, node: str) -> None:
        self._api, self._node = api, node
        self._loop = asyncio.get_running_loop()
        self._changed, self._other_tokens = asyncio.Event(), asyncio.Event()
        self._snapshots: Callable[[], Iterable[PodSnapshot]] = tuple
        self._mounted: dict[str, Mapping[str, str]] = {}
        """By pod uid: the versions that a pod last mounted."""
        self._waking: asyncio.TimerHandle | None = None
        self._objects: ObjectChangeSignals | None = None
        self.source = ApiObjects(api, self._pods, self._changed.set)
        self.tokens = ApiTokens(api)
        self.trust_bundles = ApiTrustBundles(api, self._changed.set)
        self._services = Informer(api, SERVICES, cut=service_fields)
        self._csi_node: CsiNodeKeeper | None = None

    def list_drivers(self, drivers: CsiDrivers, tell: Callable[[str, str], None]) -> None:
        """List CSI drivers in the CSINode while `running`; those that register earlier wait for it.

        `tell` takes the reason and message of a warning about the node.
        """
        self._csi_node = CsiNodeKeeper(self._api, self._node, drivers, tell)

    async def services(self) -> Iterable[Mapping[str, Any]]:
        """Return all Services of the cluster; raises ServicesUnknown."""
        try:
            return [one.json for one in (await self._services.all()).values()]
        except NotSynced as error:
            raise ServicesUnknown(str(error)) from error

    def observe(self, snapshot: PodSnapshot) -> None:
        """Observe a snapshot; returns at once, and does nothing unless the pod mounts something else."""
        if self._mounted.get(snapshot.uid, {}) == (shown := {} if snapshot.deleting else snapshot.objects):
            return
        if shown:
            self._mounted[snapshot.uid] = shown
        else:
            self._mounted.pop(snapshot.uid, None)
        with contextlib.suppress(RuntimeError):  # the loop has ended, so nothing is signalled any more
            self._loop.call_soon_threadsafe(self._wake_soon)

    def tell_anew(self, workflow_ids: Collection[str]) -> None:
        """Signal pods whose lead has changed again, with what they do not show yet."""
        if self._objects:
            self._objects.tell_anew(workflow_ids)
            self._changed.set()

    @contextlib.asynccontextmanager
    async def running(
        self, snapshots: Callable[[], Iterable[PodSnapshot]], send_signal: SendSignal
    ) -> AsyncIterator[None]:
        """Signal changes, renew tokens and update the CSINode while the block runs.

        `snapshots` returns the newest snapshot of every pod.
        """
        self._snapshots = snapshots
        self._objects = objects = ObjectChangeSignals(self.source.watched, self.trust_bundles, self._pods, send_signal)
        rotation = TokenRotation(self.tokens, self._pods, send_signal)
        self._services.follow()  # in advance, so that the first container does not wait for the list
        running = {
            "changed objects": lambda: objects.run(self._changed),
            "token rotation": lambda: rotation.run(self._other_tokens),
        }
        if self._csi_node is not None:
            running["CSINode"] = self._csi_node.run
        try:
            async with contextlib.AsyncExitStack() as loops:
                for what, loop in running.items():
                    await loops.enter_async_context(in_background(what, loop))
                yield
        finally:
            await self.source.stop()
            await self._services.stop()
            await self.trust_bundles.stop()

    def _pods(self) -> Iterable[PodSnapshot]:
        return self._snapshots()

    def _wake_soon(self) -> None:
        if self._waking is None:
            self._waking = self._loop.call_later(COALESCE_SECONDS, self._wake)

    def _wake(self) -> None:
        self._waking = None
        self._changed.set()
        self._other_tokens.set()
        self.tokens.forget(frozenset(one.uid for one in self._pods()))
