"""TokenReview and SubjectAccessReview requests to the API server, retried while it is unavailable, as by the kubelet.

Concurrent requests are limited for each kind separately, so that a flood of tokens does not delay authorization.
"""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from activities.clients.api_server.api_server import ApiAway, ApiServer
from activities.clients.api_server.resources import Resource

AT_ONCE: Final = 32
_TRIES: Final = 5
_FIRST_WAIT: Final = timedelta(milliseconds=500)
_GROWTH: Final = 1.5
"""Five tries, 500 ms apart at first, then 1.5 times longer each: DefaultAuthWebhookRetryBackoff (apiserver/pkg/server/options)."""


class Review:
    """One kind of review; used from one event loop."""

    def __init__(self, api: ApiServer, kind: str, resource: Resource) -> None:
        self._api = api
        self._kind = kind
        self._resource = resource
        self._places = asyncio.Semaphore(AT_ONCE)

    async def status(self, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        """Create a review and return its status; raises ApiAway after the last try, ApiRefused at once.

        The spec never enters a message: a TokenReview holds the token.
        """
        version = f"{self._resource.group}/{self._resource.version}"
        body = {"apiVersion": version, "kind": self._kind, "spec": spec}
        wait = _FIRST_WAIT
        for tries_left in reversed(range(_TRIES)):
            try:
                async with self._places:
                    answer = await self._api.create(self._resource.path(), body)
            except ApiAway:
                if not tries_left:
                    raise
                await asyncio.sleep(wait.total_seconds())
                wait *= _GROWTH
            else:
                status = answer.get("status")
                return status if isinstance(status, dict) else {}
        raise AssertionError("unreachable")
