"""Reads ResourceClaims from the API server. The node authorizer lets a node read those of its pods one by one."""

from collections.abc import Mapping
from typing import Any

from activities.clients.api_server.api_server import ApiAway, ApiRefused, ApiServer
from activities.clients.api_server.resources import RESOURCE_CLAIMS
from activities.dra.services import ResourcesRefused


class ResourceClaims:
    """The claims in one cluster."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api

    async def read(self, namespace: str, name: str) -> Mapping[str, Any]:
        """Read one; raises ResourcesRefused."""
        try:
            return await self._api.get(RESOURCE_CLAIMS.path(name, namespace=namespace))
        except (ApiRefused, ApiAway) as error:
            raise ResourcesRefused(f"fetch ResourceClaim {name}: {error}") from error
