"""Authorizes a request: AlwaysAllow, or a SubjectAccessReview on the node's subresources.

The rules are the kubelet's (pkg/kubelet/server/auth.go, apiserver plugin/pkg/authorizer/webhook): the verb follows from the
method, the row's subresources are tried in order, decisions are cached. A failed review never allows. It is answered with 503,
because a retry can help; the kubelet answers 500.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from typing import Any, Final

import structlog

from activities.clients.api_server.api_server import ApiAway, ApiRefused, ApiServer
from activities.clients.api_server.resources import SUBJECT_ACCESS_REVIEWS
from worker.api.access.rate_limited_log import RateLimitedLog
from worker.api.access.review import Review
from worker.api.access.route import Route
from worker.api.access.timed_cache import TimedCache
from worker.api.access.users import User
from worker.api.responses.responses import Refused, Unavailable
from worker.settings.cluster import Authorization

VERBS: Final[Mapping[str, str]] = {
    "POST": "create",
    "GET": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
"""HEAD and OPTIONS have no verb, so only a user with all verbs may use them."""
FINE_GRAINED: Final = frozenset({"pods", "healthz", "configz"})
"""The subresources that the gate KubeletFineGrainedAuthz tries before `proxy`."""
MOST_KEPT: Final = 2048
_LONGEST_KEPT: Final = 10_000
"""Characters of a review's spec; the decision on a longer one is not cached (webhook.go shouldCache)."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RequiredAccess:
    """The access that a request requires: a verb on one of the node's subresources."""

    verb: str
    subresources: tuple[str, ...]


def required_access(method: str, route: Route | None, *, fine_grained: bool = True) -> RequiredAccess:
    """Return the access that a request requires; a path without a row requires `proxy`, as in the kubelet."""
    verb = (route.verb if route else "") or VERBS.get(method, "")
    wanted = route.subresources if route else ("proxy",)
    if not fine_grained:
        wanted = tuple(one for one in wanted if one not in FINE_GRAINED) or ("proxy",)
    return RequiredAccess(verb, wanted)


class Authorizer:
    """Asks the API server what a user may do on this node, and caches the decisions."""

    def __init__(
        self, api: ApiServer, settings: Authorization, node_name: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._review = Review(api, "SubjectAccessReview", SUBJECT_ACCESS_REVIEWS)
        self._settings = settings
        self._node_name = node_name
        self._decisions: TimedCache[bool] = TimedCache(MOST_KEPT, clock)
        self._rate_limited = RateLimitedLog(log, clock)

    async def check(self, user: User, wants: RequiredAccess) -> None:
        """Return if the user is allowed; raises Refused (403), or Unavailable when the API server gave no decision."""
        if self._settings.always_allow:
            return
        for subresource in wants.subresources:
            try:
                if await self._allowed(user, wants.verb, subresource):
                    return
            except (ApiAway, ApiRefused) as error:
                asked_for = {"user": user.name, "verb": wants.verb, "resource": "nodes", "subresource": subresource}
                self._rate_limited.warning("Authorization error", **asked_for, error=str(error))
                what = ", ".join(f"{name}={value}" for name, value in asked_for.items())
                why = (
                    "does not answer"
                    if isinstance(error, ApiAway)
                    else "does not review it, and this node's log has the reason"
                )
                raise Unavailable(f"Authorization error ({what}): the API server {why}") from error
        raise Refused(
            HTTPStatus.FORBIDDEN,
            f"Forbidden (user={user.name}, verb={wants.verb}, resource=nodes, "
            f"subresource(s)=[{' '.join(wants.subresources)}])\n",
        )

    async def _allowed(self, user: User, verb: str, subresource: str) -> bool:
        spec = self._spec(user, verb, subresource)
        key = repr(spec)

        async def ask() -> tuple[bool, timedelta]:
            status = await self._review.status(spec)
            allowed = status.get("allowed") is True and not status.get("denied")
            holds = self._settings.allowed_ttl if allowed else self._settings.denied_ttl
            return allowed, holds if len(key) <= _LONGEST_KEPT else timedelta(0)

        return await self._decisions.get(key, ask)

    def _spec(self, user: User, verb: str, subresource: str) -> dict[str, Any]:
        spec: dict[str, Any] = {
            "user": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {name.lower(): list(values) for name, values in sorted(user.extra.items())},
            "resourceAttributes": {
                "verb": verb,
                "version": "v1",
                "resource": "nodes",
                "subresource": subresource,
                "name": self._node_name,
            },
        }
        return {name: value for name, value in spec.items() if value}
