"""The pods of this node as the API server has them, with their status.

The keeper watches them. So it knows without a request what a patch would change, that another client changed a status, that a
pod is gone, and which mirror pod represents a static pod. Only these fields of each object are kept.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from activities.clients.api_server.api_server import ApiServer
from activities.clients.api_server.reflector import Changed, Listed, Reflector
from activities.clients.api_server.resources import PODS
from activities.execution.one_by_one import one_by_one
from proto.kubernetes.source_annotations import MIRROR_ANNOTATION
from worker.status.normalize import Json, normalize

Name = tuple[str, str]
"""A pod's namespace and name."""


@dataclass(frozen=True, slots=True)
class ApiPod:
    """The part of a pod object that is kept."""

    namespace: str
    name: str
    uid: str
    version: int
    """resourceVersion; of one object's versions the higher is newer (comparable since 1.35, and always in etcd)."""
    deleting: bool
    mirror_of: str
    """The UID of the static pod that it mirrors; empty: it is not a mirror pod."""
    status: Json = field(compare=False, repr=False)

    @classmethod
    def of(cls, pod: Mapping[str, Any]) -> Self:
        """Read it from the API's JSON."""
        meta = pod["metadata"]
        return cls(
            namespace=meta["namespace"],
            name=meta["name"],
            uid=meta["uid"],
            version=int(meta["resourceVersion"]),
            deleting="deletionTimestamp" in meta,
            mirror_of=(meta.get("annotations") or {}).get(MIRROR_ANNOTATION, ""),
            status=normalize(pod.get("status") or {}),
        )

    @property
    def key(self) -> Name:
        """Namespace and name."""
        return self.namespace, self.name

    def stands_for(self, uid: str) -> bool:
        """Report whether it is the object of the pod with this UID, or its mirror."""
        return uid == (self.mirror_of or self.uid)


def _read(found: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], ApiPod]]:
    """Read objects; one that is malformed is left out."""
    return one_by_one("statuses of pods", found, ApiPod.of, lambda one: one["metadata"]["name"])


class ApiPods:
    """All pods of this node in the API, by name; used from one event loop."""

    def __init__(self, api: ApiServer, node_name: str, changed: Callable[[Name], None]) -> None:
        """`changed` is called with the name of each pod whose object or status changed, or that is gone."""
        self._reflector = Reflector(
            api, PODS.path(), what="status of pods", field_selector=f"spec.nodeName={node_name}"
        )
        self._changed = changed
        self._pods: dict[Name, ApiPod] = {}
        self.listed = asyncio.Event()
        """Set when all are known; a pod that is absent does not exist, or was created a moment ago."""

    def get(self, name: Name) -> ApiPod | None:
        """Return what is known of a pod."""
        return self._pods.get(name)

    async def follow(self) -> None:
        """Watch until cancelled."""
        async for news in self._reflector.changes():
            self._apply(news)
            del news  # frees the whole objects, of which only statuses are kept

    def _apply(self, news: Listed | Changed) -> None:
        match news:
            case Listed(items):
                self._list([pod for _, pod in _read(items)])
            case Changed(kind, one):
                for _, pod in _read([one]):
                    (self.drop if kind == "DELETED" else self.take)(pod)

    def take(self, pod: ApiPod) -> None:
        """Store a pod unless a newer version is known; an echo of our own write is not a change.

        A version older than our own write is a change: another client wrote just before us.
        """
        known = self._pods.get(pod.key)
        if known is not None and known.version == pod.version:
            return
        if known is None or known.version < pod.version:
            self._pods[pod.key] = pod
        self._changed(pod.key)

    def refresh(self, pod: ApiPod) -> None:
        """Store the response of a call, unless the object was deleted meanwhile."""
        known = self._pods.get(pod.key)
        if known is not None and known.uid == pod.uid and known.version < pod.version:
            self._pods[pod.key] = pod

    def drop(self, pod: ApiPod) -> None:
        """Remove a pod that is gone; a later one of the same name stays."""
        known = self._pods.get(pod.key)
        if known is not None and known.uid == pod.uid:
            del self._pods[pod.key]
            self._changed(pod.key)

    def _list(self, pods: list[ApiPod]) -> None:
        there = {one.key for one in pods}
        gone = [one for key, one in self._pods.items() if key not in there]
        self.listed.set()
        for one in gone:
            self.drop(one)
        for one in pods:  # also older versions: the server may have been restored from a backup
            self._pods[one.key] = one
            self._changed(one.key)
