"""The ObjectSource of a cluster's node, which reads each kind in a way that the node authorizer allows.

ConfigMaps and Secrets are watched one by one (`watched_objects`), small kinds of the whole cluster are cached (`informer`), and
kinds that are needed once in a pod's life are read on demand: claims, their volumes, service accounts.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from activities.clients.api_server.api_server import ApiAway, ApiRefused, ApiServer
from activities.clients.api_server.resources import (
    CSI_DRIVERS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    RUNTIME_CLASSES,
    SERVICE_ACCOUNTS,
    VOLUME_ATTACHMENTS,
    Resource,
)
from activities.objects.objects import ObjectKind, ObjectMissing, ObjectRefused, StoredObject
from proto.pod_snapshot import PodSnapshot
from worker.api_objects.informer import Informer, NotSynced, without_managed_fields
from worker.api_objects.watched_objects import WATCHED, WatchedObjects

_READ: Final[Mapping[ObjectKind, Resource]] = {
    **WATCHED,
    ObjectKind.PERSISTENT_VOLUME_CLAIMS: PERSISTENT_VOLUME_CLAIMS,
    ObjectKind.PERSISTENT_VOLUMES: PERSISTENT_VOLUMES,
    ObjectKind.SERVICE_ACCOUNTS: SERVICE_ACCOUNTS,
    ObjectKind.VOLUME_ATTACHMENTS: VOLUME_ATTACHMENTS,
}
_FOLLOWED: Final[Mapping[ObjectKind, Resource]] = {
    ObjectKind.RUNTIME_CLASSES: RUNTIME_CLASSES,
    ObjectKind.CSI_DRIVERS: CSI_DRIVERS,
}


class ApiObjects:
    """Objects from the API server; used from one event loop."""

    def __init__(self, api: ApiServer, pods: Callable[[], Iterable[PodSnapshot]], changed: Callable[[], None]) -> None:
        """Take the function that returns the node's pods, which determine what may be watched, and one to call on changes."""
        self._api = api
        self.watched = WatchedObjects(api, pods, changed)
        self._followed = {kind: Informer(api, resource) for kind, resource in _FOLLOWED.items()}

    async def get(self, kind: ObjectKind, namespace: str, name: str) -> StoredObject:
        """Read one object; raises ObjectMissing and ObjectRefused."""
        if kind in WATCHED and (found := await self.watched.find((kind, namespace, name))):
            return found
        if kind in self._followed:
            return await self._from_all(kind, name)
        return await self._once(kind, namespace, name)

    async def stop(self) -> None:
        """Stop all watches."""
        await self.watched.stop()
        for followed in self._followed.values():
            await followed.stop()

    async def _from_all(self, kind: ObjectKind, name: str) -> StoredObject:
        try:
            objects = await self._followed[kind].all()
        except NotSynced as error:
            raise ObjectRefused(f"{kind.singular} {name}: {error}") from error
        if ("", name) not in objects:
            raise ObjectMissing(kind, name)
        return objects["", name]

    async def _once(self, kind: ObjectKind, namespace: str, name: str) -> StoredObject:
        path = _READ[kind].path(name, namespace=namespace if kind.namespaced else "")
        try:
            return without_managed_fields(await self._api.get(path))
        except ApiRefused as error:
            if error.not_found:
                raise ObjectMissing(kind, name) from error
            raise ObjectRefused(f"{kind.singular} {name}: {error}") from error
        except ApiAway as error:
            raise ObjectRefused(f"{kind.singular} {name} can't be read from {self._api.server}: {error}") from error
