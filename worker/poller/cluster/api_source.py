"""Follows this node's pods in the API, and asks again before a pod counts as gone.

Started by `cluster_pods`. A list is taken only if it is complete (`Reflector`); an API server that does not answer
changes nothing. A pod that is not listed any more is confirmed by a list of its name on this node, because a node may
not GET a pod that is gone: the API answers Forbidden, not NotFound.
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
"""Seconds for which the API's answer that it knows our Node and is our cluster's is cached, for many pods that are
deleted together."""

_log: Final = structlog.get_logger(__name__)


class PodHandler(Protocol):
    """Handles the pods of the API."""

    def set_listed(self, pods: Collection[ApiPod]) -> None:
        """Take a complete list."""

    def set_changed(self, pod: ApiPod, *, removed: bool = False) -> None:
        """Take one change."""


class ApiSource:
    """The pods of one node."""

    def __init__(self, api: ApiServer, node: str, identity: ClusterIdentity, *, hooks: bool = False) -> None:
        """`hooks`: whether this node obeys hook annotations of pods of the API."""
        self._api, self._node, self._identity, self._hooks = api, node, identity, hooks
        self._trusted_until = 0.0

    async def follow(self, pods: PodHandler) -> None:
        """Pass lists and changes to `pods`; never returns."""
        reflector = Reflector(
            self._api, PODS.path(), what="the pods of this node", field_selector=f"spec.nodeName={self._node}"
        )
        async for said in reflector.changes():
            is_list = isinstance(said, Listed)
            self._pass_on(pods, said, datetime.now(UTC))
            del said  # whole objects, not needed until something changes
            if is_list:
                with contextlib.suppress(ApiAway):  # otherwise it is learned with the next list
                    await self._identity.is_ours()

    async def is_gone(self, namespace: str, name: str, uid: str) -> bool:
        """Report whether the pod is gone from the API of our cluster, which knows our Node; raises ApiAway, ApiRefused."""
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

    def _pass_on(self, pods: PodHandler, said: Listed | Changed, now: datetime) -> None:
        match said:
            case Listed(items):
                pods.set_listed([pod for one in items if (pod := _read(one, now, hooks=self._hooks))])
            case Changed(kind, found):
                if pod := _read(found, now, hooks=self._hooks):
                    pods.set_changed(pod, removed=kind == "DELETED")


def _read(document: Json | Mapping[str, Any], now: datetime, *, hooks: bool) -> ApiPod | None:
    """Read one object; a malformed one must not stop the others."""
    try:
        return read_api_pod(document, now, hooks=hooks)
    except (KeyError, TypeError, AttributeError, ValueError):
        name = (document.get("metadata") or {}).get("name") if isinstance(document.get("metadata"), dict) else None
        _log.exception("could not read an object of the API as a pod; please report this", pod=name)
        return None
