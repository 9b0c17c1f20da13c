"""The node's heartbeat: its Lease in kube-node-lease, renewed every quarter of its duration.

An independent part of the node process, so that neither a slow runtime, an unavailable Temporal nor a failing status update
delays it. The last known Lease is updated without reading it first (k8s.io/component-helpers apimachinery/lease), so a
heartbeat is one request. Its owner is the Node, so it is deleted with it.
"""

import asyncio
import random
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import structlog

from activities.clients.api_server.api_server import ApiAway, ApiRefused, ApiServer, Json
from activities.clients.api_server.resources import LEASES, NODES
from worker.node.process.dependencies import NodeDependencies

NAMESPACE: Final = "kube-node-lease"
SHARE: Final = 0.25
JITTER: Final = 0.04
TRIES: Final = 5
FIRST_PAUSE: Final = 0.2
LONGEST_PAUSE: Final = 7.0
LOOP: Final = "node lease"

log = structlog.get_logger(__name__)


async def keep_lease(deps: NodeDependencies) -> None:
    """Renew the Lease until cancelled."""
    lease = Lease(deps.api, deps.config.node_name, deps.cluster.lease_seconds)
    every = timedelta(seconds=deps.cluster.lease_seconds * SHARE)
    pause = FIRST_PAUSE
    while True:
        deps.health.turn(LOOP, every)
        if await lease.renew():
            pause = FIRST_PAUSE
            await asyncio.sleep(every.total_seconds() * random.uniform(1, 1 + JITTER))  # noqa: S311 - no secret
        else:
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


class _NoNode(Exception):
    """The Node that would own the Lease does not exist; its registration logs why."""


class Lease:
    """One node's Lease."""

    def __init__(self, api: ApiServer, node: str, seconds: int) -> None:
        self._api, self._node, self._seconds = api, node, seconds
        self._path = LEASES.path(node, namespace=NAMESPACE)
        self._known: Json | None = None
        self._trouble = ""

    async def renew(self) -> bool:
        """Renew or create it; reports success. Does not raise if the API server is unavailable or refuses."""
        for _ in range(TRIES):
            try:
                if self._known is None:
                    self._known = await self._found_or_made()
                self._known = await self._api.replace(
                    self._path, renewed(self._known, self._seconds, datetime.now(UTC))
                )
            except _NoNode:
                log.debug("the node's lease waits for the node to be registered", node=self._node)
                return False
            except ApiRefused as error:
                self._known = None  # another client has updated it, or it is gone
                self._log_change(f"{error.status} {error.reason}: {error}")
                if not error.conflict and not error.not_found:
                    return False
            except ApiAway as error:
                self._log_change(str(error))
                return False
            else:
                self._log_change("")
                return True
        return False

    async def _found_or_made(self) -> Json:
        try:
            found = await self._api.get(self._path)
        except ApiRefused as error:
            if not error.not_found:
                raise
            found = await self._api.create(
                LEASES.path(namespace=NAMESPACE), new_lease(await self._owner(), self._seconds)
            )
        if not found["metadata"].get("ownerReferences"):
            found["metadata"]["ownerReferences"] = [owner_reference(await self._owner())]
        return found

    async def _owner(self) -> Json:
        try:
            return await self._api.get(NODES.path(self._node))
        except ApiRefused as error:
            raise _NoNode if error.not_found else error from error

    def _log_change(self, trouble: str) -> None:
        """Log once that it cannot be renewed, and once that it can again."""
        if trouble and not self._trouble:
            log.warning("the node's lease cannot be renewed, retrying", node=self._node, err=trouble)
        elif self._trouble and not trouble:
            log.info("the node's lease is renewed again", node=self._node)
        self._trouble = trouble


def new_lease(node: Json, seconds: int) -> Json:
    """Return the Lease of a Node."""
    name = node["metadata"]["name"]
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": NAMESPACE, "ownerReferences": [owner_reference(node)]},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": seconds},
    }


def owner_reference(node: Json) -> Json:
    """Return an owner reference to a Node."""
    return {"apiVersion": "v1", "kind": "Node", "name": node["metadata"]["name"], "uid": node["metadata"]["uid"]}


def renewed(lease: Json, seconds: int, now: datetime) -> Json:
    """Return a Lease that is valid for `seconds` from `now` on."""
    spec: dict[str, Any] = {**lease["spec"], "leaseDurationSeconds": seconds, "renewTime": micro_time(now)}
    return {**lease, "spec": spec}


def micro_time(at: datetime) -> str:
    """Format a time as the API's MicroTime."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
