"""Service account tokens, read through one protocol: the API server issues them; a standalone node has none.

Used by projected volumes, CSI drivers and credential providers. A token stays in this process and where it is written
to; Temporal and logs get only its version: when it was issued and when it expires.
"""

import functools
import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

OLDEST: Final = timedelta(hours=24)
"""No token gets older (pkg/kubelet/token maxTTL)."""
JITTER: Final = timedelta(seconds=10)
"""Tokens are refreshed up to this much earlier, so that a node's pods do not refresh all at once."""
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, slots=True)
class BoundPod:
    """The pod that a token is bound to."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class TokenSpec:
    """Which token is requested."""

    namespace: str
    service_account: str
    audiences: tuple[str, ...] = ()
    """Empty: the API server's default."""
    expiration_seconds: int | None = None
    pod: BoundPod | None = None
    """None: for the account itself, which the API server refuses to nodes unless it is allowed explicitly."""
    service_account_uid: str = ""
    """A later account of the same name is refused."""


def pod_token_spec(pod: BoundPod, account: str, audience: str, seconds: int | None) -> TokenSpec:
    """Request a token that is bound to a pod; without an audience it is for the API server."""
    return TokenSpec(pod.namespace, account, (audience,) if audience else (), seconds, pod)


@dataclass(frozen=True, slots=True)
class ServiceAccountToken:
    """A token and its times."""

    text: str = field(repr=False)
    issued: datetime
    expires: datetime

    @property
    def version(self) -> str:
        """Identifies the token; may be written to history."""
        return f"{self.issued:{_TIME}}/{self.expires:{_TIME}}"


class TokenRefused(Exception):
    """No token was issued; the message is the API server's, with account and reason."""


class TokenSource(Protocol):
    """A source of tokens."""

    async def token(self, spec: TokenSpec) -> ServiceAccountToken:
        """Return a token that need not be refreshed yet, requesting it if necessary; raises TokenRefused."""
        ...


class NoTokens:
    """A node without an API server."""

    async def token(self, spec: TokenSpec) -> ServiceAccountToken:
        """Refuse, in the kubelet's words."""
        raise TokenRefused(
            f"failed to fetch token for service account {spec.namespace}/{spec.service_account}: "
            f"a standalone node cannot issue them"
        )


@functools.lru_cache(maxsize=512)  # all tokens of a node are checked whenever one of its pods shows another version
def due(version: str, seed: str) -> datetime:
    """Return when a token is to be refreshed: at 80 % of its life or after a day, a bit earlier by `seed`.

    pkg/kubelet/token requiresRefresh draws its jitter at each check; here a token keeps one.
    """
    issued, expires = (datetime.strptime(one, _TIME).replace(tzinfo=UTC) for one in version.split("/"))
    drawn = int.from_bytes(hashlib.sha256(f"{seed} {version}".encode()).digest()[:4]) / 2**32
    return min(issued + OLDEST, expires - (expires - issued) * 0.2) - JITTER * drawn
