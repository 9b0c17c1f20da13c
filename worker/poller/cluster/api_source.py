"""Follows this node's pods in the API, and asks it once more before one counts as gone.

Started by `run` in cluster mode. A list is taken only as a whole (`Reflector`), an API server that is away tells nothing and so
changes nothing. What is not listed any more is confirmed for each pod alone, by a list of its name on this node: a GET of a
pod that is gone is forbidden to a node, not answered with NotFound.
"""

import asyncio
import contextlib
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Protocol

import structlog

from activities.clients.api_server.api_server import ApiAway, ApiRefused, ApiServer, Json
from activities.clients.api_server.reflector import Changed, Listed, Reflector
from activities.clients.api_server.resources import NODES, PODS
from worker.poller.cluster.api_pod import ApiPod, read_api_pod
from worker.poller.cluster.cluster_identity import ClusterIdentity

TRUSTED_FOR: Final = 5.0
"""Seconds for which the API's word that it knows our Node and is our cluster's holds, so that many pods that go ask once."""

_log: Final = structlog.get_logger(__name__)


class PodHandler(Protocol):
    """Who is told of the pods."""

    def set_listed(self, pods: Collection[ApiPod]) -> None:
        """Take the complete list."""

    def set_changed(self, pod: ApiPod, *, removed: bool = False) -> None:
        """Take one change."""


class ApiSource:
    """The pods of one node."""

    def __init__(self, api: ApiServer, node: str, identity: ClusterIdentity) -> None:
        self._api, self._node, self._identity = api, node, identity
        self._trusted_until = 0.0

    async def follow(self, pods: PodHandler) -> None:
        """Tell `pods` what there is and what changes; never ends by itself."""
        reflector = Reflector(
            self._api, PODS.path(), what="the pods of this node", field_selector=f"spec.nodeName={self._node}"
        )
        async for said in reflector.changes():
            is_list = isinstance(said, Listed)
            _tell(pods, said, datetime.now(UTC))
            del said  # whole objects, which nobody needs until something changes
            if is_list:
                with contextlib.suppress(ApiAway):  # else it is learned with the next list
                    await self._identity.is_ours()

    async def is_gone(self, namespace: str, name: str, uid: str) -> bool:
        """Say whether the API has no such pod on this node, knows our Node, and is our cluster's; raises ApiAway, ApiRefused."""
        selector = f"spec.nodeName={self._node},metadata.name={name}"
        found = await self._api.get(PODS.path(namespace=namespace), fieldSelector=selector)
        if any(one["metadata"]["uid"] == uid for one in found.get("items") or ()):
            return False
        return await self._is_to_be_trusted()

    async def _is_to_be_trusted(self) -> bool:
        clock = asyncio.get_running_loop().time
        if clock() < self._trusted_until:
            return True
        if not await self._identity.is_ours():
            return False
        try:
            await self._api.get(NODES.path(self._node))
        except ApiRefused as error:
            if not error.not_found:
                raise
            _log.warning("the API does not know this node: no pod is killed for not being listed", node=self._node)
            return False
        self._trusted_until = clock() + TRUSTED_FOR
        return True


def _tell(pods: PodHandler, said: Listed | Changed, now: datetime) -> None:
    match said:
        case Listed(items):
            pods.set_listed([pod for one in items if (pod := _read(one, now))])
        case Changed(kind, found):
            if pod := _read(found, now):
                pods.set_changed(pod, removed=kind == "DELETED")


def _read(document: Json | Mapping[str, Any], now: datetime) -> ApiPod | None:
    """Read one object; what is no pod at all must not stop the others."""
    try:
        return read_api_pod(document, now)
    except (KeyError, TypeError, AttributeError, ValueError):
        name = (document.get("metadata") or {}).get("name") if isinstance(document.get("metadata"), dict) else None
        _log.exception("an object of the API could not be read as a pod; please report this", pod=name)
        return None
