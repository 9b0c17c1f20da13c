"""The pods of this node as the API server has them, as far as their status goes.

Followed by the keeper with a watch of its own: so it knows without asking what a patch would change, that somebody else has
changed a status, that a pod is gone, and which mirror pod stands for a static one. Of each object only that much is kept.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from activities.clients.api_server.api_server import ApiServer
from activities.clients.api_server.reflector import Changed, Listed, Reflector
from activities.clients.api_server.resources import PODS
from proto.kubernetes.source_annotations import MIRROR_ANNOTATION
from worker.status.normalize import Json, normalize

Name = tuple[str, str]
"""A pod's namespace and name."""


@dataclass(frozen=True, slots=True)
class ApiPod:
    """What is remembered of a pod object."""

    namespace: str
    name: str
    uid: str
    version: int
    """resourceVersion; of two of one object the higher is the newer (they compare since 1.35, and always did in etcd)."""
    deleting: bool
    mirror_of: str
    """The UID of the static pod for which it stands; empty: it is a pod of the API."""
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
        """By which it is found."""
        return self.namespace, self.name

    def stands_for(self, uid: str) -> bool:
        """Say whether it is the object of the pod with this UID: its own, or its mirror."""
        return uid == (self.mirror_of or self.uid)


class ApiPods:
    """All pods that the API has for this node, by their name; used from one event loop."""

    def __init__(self, api: ApiServer, node_name: str, changed: Callable[[Name], None]) -> None:
        """`changed` is told the name of each pod that is another or has another status than before, or is gone."""
        self._reflector = Reflector(
            api, PODS.path(), what="status of pods", field_selector=f"spec.nodeName={node_name}"
        )
        self._changed = changed
        self._pods: dict[Name, ApiPod] = {}
        self.listed = asyncio.Event()
        """All are known; a pod that is not among them is not there, or came a moment ago."""

    def get(self, name: Name) -> ApiPod | None:
        """Give what is known of a pod."""
        return self._pods.get(name)

    async def follow(self) -> None:
        """Follow them until cancelled."""
        async for news in self._reflector.changes():
            self._hear(news)
            del news  # whole objects, of which only statuses are kept

    def _hear(self, news: Listed | Changed) -> None:
        match news:
            case Listed(items):
                self._list([ApiPod.of(one) for one in items])
            case Changed("DELETED", gone):
                self.drop(ApiPod.of(gone))
            case Changed(_, pod):
                self.take(ApiPod.of(pod))

    def take(self, pod: ApiPod) -> None:
        """Remember a pod, unless a newer state of it is known; what we wrote ourselves, told again, is no change.

        What is older than our own write is one all the same: somebody wrote before us, whom we did not know of.
        """
        known = self._pods.get(pod.key)
        if known is not None and known.version == pod.version:
            return
        if known is None or known.version < pod.version:
            self._pods[pod.key] = pod
        self._changed(pod.key)

    def refresh(self, pod: ApiPod) -> None:
        """Take what a call came back with: of an object that was deleted meanwhile it would be old news."""
        known = self._pods.get(pod.key)
        if known is not None and known.uid == pod.uid and known.version < pod.version:
            self._pods[pod.key] = pod

    def drop(self, pod: ApiPod) -> None:
        """Forget a pod that is gone; one of the same name that came afterwards stays."""
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
        for one in pods:  # also what is older than what we know: the server may have been restored from a backup
            self._pods[one.key] = one
            self._changed(one.key)
