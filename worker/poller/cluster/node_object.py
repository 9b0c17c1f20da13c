"""This node's object in the API, as far as admission depends on it: labels, taints, allocatable resources.

Followed by `cluster_pods`. Until the API has returned it, and while there is none, the node's own configuration counts
(`admission/own_node.py`).
"""

from collections.abc import Callable, Mapping
from typing import Any

from activities.clients.api_server.api_server import ApiServer
from activities.clients.api_server.errors import ApiAway, ApiRefused
from activities.clients.api_server.reflector import Changed, Listed, Reflector
from activities.clients.api_server.resources import NODES
from proto.kubernetes.resources.quantity import Quantity, QuantityError, parse_quantity
from worker.daemon.config import NodeConfig
from worker.poller.admission.own_node import OwnNode
from workflows.decide.node.node_admission import NodeFacts


class NodeObject:
    """What is known of the Node."""

    def __init__(self, api: ApiServer, config: NodeConfig, changed: Callable[[], None]) -> None:
        """Take the API server, the node's configuration, and a callback for a changed object or changed addresses."""
        self._api, self._config, self._changed = api, config, changed
        self._own = OwnNode(config)
        self._json: Mapping[str, Any] | None = None

    @property
    def uid(self) -> str:
        """The object's uid; empty if there is none, as far as is known."""
        return str(self._json["metadata"]["uid"]) if self._json else ""

    @property
    def host_ips(self) -> tuple[str, ...]:
        """The node's addresses for its pods; empty until the API has returned some."""
        return host_ips(self._json) if self._json else ()

    async def follow(self) -> None:
        """Follow it; never returns."""
        name = self._config.node_name
        reflector = Reflector(self._api, NODES.path(), what="this node", field_selector=f"metadata.name={name}")
        async for said in reflector.changes():
            match said:
                case Listed(items):
                    self._take(items[0] if items else None)
                case Changed("DELETED", _):
                    self._take(None)
                case Changed(_, found):
                    self._take(found)

    async def read(self) -> None:
        """Read it now, because the watch may lag behind what the scheduler has seen; on failure the old one stays."""
        try:
            self._take(await self._api.get(NODES.path(self._config.node_name)))
        except (ApiAway, ApiRefused):
            return

    def _take(self, found: Mapping[str, Any] | None) -> None:
        """Store it, and call back if it differs; a watch event older than a read then reports nothing new."""
        before, self._json = (self.uid, self.host_ips), found
        if (self.uid, self.host_ips) != before:
            self._changed()

    def facts(self) -> NodeFacts:
        """Return what admission needs."""
        if self._json is None:
            return self._own.facts()
        metadata, spec, status = (self._json.get(part) or {} for part in ("metadata", "spec", "status"))
        return NodeFacts(
            name=self._config.node_name,
            labels=metadata.get("labels") or {},
            taints=tuple(spec.get("taints") or ()),
            allocatable=_amounts(status.get("allocatable") or {}) or self._own.facts().allocatable,
        )


def host_ips(node: Mapping[str, Any]) -> tuple[str, ...]:
    """Choose one address of each family from a Node, internal ones first (pkg/util/node/node.go GetNodeHostIPs)."""
    found = (node.get("status") or {}).get("addresses") or ()
    ordered = [one["address"] for kind in ("InternalIP", "ExternalIP") for one in found if one["type"] == kind]
    other = [one for one in ordered if (":" in one) != (":" in ordered[0])]
    return (*ordered[:1], *other[:1])


def _amounts(said: Mapping[str, Any]) -> dict[str, Quantity]:
    found = {}
    for name, amount in said.items():
        try:
            found[name] = parse_quantity(amount)
        except QuantityError:
            continue
    return found
