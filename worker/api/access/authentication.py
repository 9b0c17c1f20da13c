"""Authenticates a request: by client certificate, by bearer token (TokenReview), or as anonymous where that is enabled.

Order and errors are the kubelet's (apiserver authenticatorfactory/delegating.go): one valid credential is enough. A request
whose credentials are all invalid gets 401, even where anonymous requests are enabled.
"""

import hashlib
import hmac
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Final

import structlog
from aiohttp import web

from activities.clients.api_server.api_server import ApiAway, ApiRefused, ApiServer
from activities.clients.api_server.resources import TOKEN_REVIEWS
from worker.api.access.client_certificates import CertificateRefused, client_certificate, user_of
from worker.api.access.rate_limited_log import RateLimitedLog
from worker.api.access.review import Review
from worker.api.access.timed_cache import TimedCache
from worker.api.access.users import ANONYMOUS_USER, User
from worker.api.responses.responses import Refused
from worker.settings.cluster import Authentication
from worker.settings.kubelet.configuration import ConfigurationRefused

MOST_KEPT: Final = 1024

log = structlog.get_logger(__name__)


def check_authentication(settings: Authentication) -> None:
    """Reject settings under which no request could be authenticated; raises ConfigurationRefused."""
    if not (settings.anonymous or settings.webhook or settings.client_ca_file):
        raise ConfigurationRefused("authentication: no way to authenticate is enabled: anonymous, webhook or x509")


class Authenticator:
    """Determines the user of a request."""

    def __init__(self, api: ApiServer, settings: Authentication, clock: Callable[[], float] = time.monotonic) -> None:
        self._review = Review(api, "TokenReview", TOKEN_REVIEWS)
        self._settings = settings
        self._users: TimedCache[User | None] = TimedCache(MOST_KEPT, clock)
        self._rate_limited = RateLimitedLog(log, clock)
        self._seal = os.urandom(
            32
        )  # key of the cached tokens' digests: neither tokens nor digests that can be looked up are kept in memory

    async def user(self, request: web.Request) -> User:
        """Return the user of a request; raises Refused (401)."""
        given = False
        if certificate := client_certificate(request):
            given = True
            try:
                return user_of(certificate, datetime.now(UTC)).authenticated()
            except CertificateRefused as error:
                self._rate_limited.warning("A client certificate was refused", peer=request.remote, error=str(error))
        token = bearer_token(request.headers.get("Authorization", ""))
        if token and self._settings.webhook:
            given = True
            user = await self._of_token(token)
            if user is not None:
                return user.authenticated()
        if given or not self._settings.anonymous:
            raise Refused(HTTPStatus.UNAUTHORIZED, "Unauthorized")
        return ANONYMOUS_USER

    async def _of_token(self, token: str) -> User | None:
        key = hmac.digest(self._seal, token.encode("utf-8", "surrogateescape"), hashlib.sha256)

        async def ask() -> tuple[User | None, timedelta]:
            status = await self._review.status({"token": token})
            return _reviewed_user(status), self._settings.webhook_ttl

        try:
            return await self._users.get(key, ask)
        except (ApiAway, ApiRefused) as error:
            self._rate_limited.warning("Unable to authenticate the request due to an error", error=str(error))
            return None


def bearer_token(header: str) -> str:
    """Return the bearer token of an Authorization header, or "" (apiserver request/bearertoken)."""
    parts = header.strip().split(" ", 2)
    return parts[1] if len(parts) > 1 and parts[0].lower() == "bearer" else ""


def _reviewed_user(status: object) -> User | None:
    if not isinstance(status, dict) or status.get("authenticated") is not True:
        return None
    found = status.get("user") or {}
    extra = found.get("extra") or {}
    return User(
        name=found.get("username") or "",
        uid=found.get("uid") or "",
        groups=tuple(found.get("groups") or ()),
        extra={name: tuple(values or ()) for name, values in extra.items()},
    )
