"""Service account tokens from the API server, cached until they are due for renewal.

Used while volumes are mounted, and by `token_rotation`. A token is bound to its pod and becomes invalid with it. Tokens are
kept in memory only; a worker that starts requests what it needs, as the kubelet does (pkg/kubelet/token/token_manager.go).
"""

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any, Final

import structlog

from activities.clients.api_server.api_server import ApiAway, ApiRefused, ApiServer
from activities.clients.api_server.resources import SERVICE_ACCOUNTS
from activities.execution.single_flight import SingleFlight
from activities.objects.tokens import ServiceAccountToken, TokenRefused, TokenSpec, due

AT_ONCE: Final = 16
"""Concurrent requests: 110 pods that start together must not open as many connections."""

SOON_KNOWN: Final = (0.05, 0.15, 0.4)
"""Seconds between tries after a refusal: the API server's caches may learn of a pod a moment after the node."""

_log: Final = structlog.get_logger(__name__)


def _now() -> datetime:
    return datetime.now(UTC)


class ApiTokens:
    """A TokenSource backed by the API; used from one event loop."""

    def __init__(self, api: ApiServer, now: Callable[[], datetime] = _now) -> None:
        self._api, self._now = api, now
        self._kept: dict[TokenSpec, ServiceAccountToken] = {}
        self._asking: SingleFlight[ServiceAccountToken] = SingleFlight()
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def token(self, wanted: TokenSpec) -> ServiceAccountToken:
        """Return the cached token until it is due, then a new one; if that fails, the cached one while it is valid."""
        kept = self._kept.get(wanted)
        if kept is not None and self._now() < due(kept.version, seed_of(wanted)):
            return kept
        return await self._asking.run(wanted, lambda: self._renewed(wanted, kept), f"token of {wanted.service_account}")

    def forget(self, pods: frozenset[str]) -> None:
        """Drop the tokens of pods that are not in `pods` (uids), and expired ones that belong to no pod."""
        now = self._now()
        self._kept = {
            wanted: kept
            for wanted, kept in self._kept.items()
            if kept.expires > now and (wanted.pod is None or wanted.pod.uid in pods)
        }

    async def _renewed(self, wanted: TokenSpec, kept: ServiceAccountToken | None) -> ServiceAccountToken:
        try:
            fresh = await self._requested(wanted)
        except (ApiAway, ApiRefused) as error:
            account = f"{wanted.namespace}/{wanted.service_account}"
            if kept is None:
                raise TokenRefused(f"failed to fetch token for service account {account}: {error}") from error
            if self._now() >= kept.expires:
                words = f"the token of service account {account} expired and refresh failed: {error}"
                raise TokenRefused(words) from error
            _log.warning(
                "a token could not be renewed; the old one is still valid", serviceAccount=account, err=str(error)
            )
            return kept
        self._kept[wanted] = fresh
        return fresh

    async def _requested(self, wanted: TokenSpec) -> ServiceAccountToken:
        path = SERVICE_ACCOUNTS.path(wanted.service_account, namespace=wanted.namespace, sub="token")
        pauses = iter(SOON_KNOWN)
        while True:
            try:
                async with self._turns:
                    return _read(await self._api.create(path, token_request(wanted)), self._now())
            except ApiRefused as error:
                pause = next(pauses, None)
                if pause is None or error.status not in {HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND}:
                    raise
                await asyncio.sleep(pause)


def token_request(wanted: TokenSpec) -> dict[str, Any]:
    """Return the TokenRequest."""
    spec: dict[str, Any] = {"audiences": list(wanted.audiences)}
    if wanted.expiration_seconds is not None:
        spec["expirationSeconds"] = wanted.expiration_seconds
    if pod := wanted.pod:
        spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
    metadata = {"uid": wanted.service_account_uid} if wanted.service_account_uid else {}
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": metadata, "spec": spec}


def seed_of(wanted: TokenSpec) -> str:
    """Return a text that differs between tokens, which spreads their renewals over time."""
    return f"{wanted.pod.uid if wanted.pod else wanted.service_account} {' '.join(wanted.audiences)} {wanted.expiration_seconds}"


def _read(answer: Mapping[str, Any], now: datetime) -> ServiceAccountToken:
    """Parse the response; the API server may have chosen another lifetime than requested."""
    status = answer.get("status") or {}
    text, expires = status.get("token"), status.get("expirationTimestamp")
    if not text or not expires:
        raise ApiRefused(
            0, "", "the API server answered without a token"
        )  # the response is never quoted: it may contain a token elsewhere
    ends = datetime.fromisoformat(expires)
    seconds = (answer.get("spec") or {}).get("expirationSeconds")
    return ServiceAccountToken(text, ends - timedelta(seconds=seconds) if seconds else now, ends)
