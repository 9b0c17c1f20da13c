"""Service account tokens, read through one protocol: a cluster's API server gives them out, a standalone node has none.

Asked by projected volumes, by CSI drivers that want tokens and by credential providers. A token stays in this process and in
what it is written for; Temporal and the logs hear only of its version, which is when it was issued and when it ends.
"""

import functools
import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

OLDEST: Final = timedelta(hours=24)
"""No token grows older (pkg/kubelet/token maxTTL)."""
JITTER: Final = timedelta(seconds=10)
"""At most so much sooner, or all pods of a node would come back at once."""
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, slots=True)
class BoundPod:
    """The pod with which a token ends."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class TokenSpec:
    """Which token is asked for."""

    namespace: str
    service_account: str
    audiences: tuple[str, ...] = ()
    """None: the API server's own."""
    expiration_seconds: int | None = None
    pod: BoundPod | None = None
    """None: the account itself, which the API server refuses to a node unless it is allowed by name."""
    service_account_uid: str = ""
    """Another account of the same name is refused."""


def pod_token_spec(pod: BoundPod, account: str, audience: str, seconds: int | None) -> TokenSpec:
    """Ask for a token that ends with its pod; without an audience it is for the API server itself."""
    return TokenSpec(pod.namespace, account, (audience,) if audience else (), seconds, pod)


@dataclass(frozen=True, slots=True)
class ServiceAccountToken:
    """A token and its time."""

    text: str = field(repr=False)
    issued: datetime
    expires: datetime

    @property
    def version(self) -> str:
        """Tell it from the one before; may be written into history."""
        return f"{self.issued:{_TIME}}/{self.expires:{_TIME}}"


class TokenRefused(Exception):
    """There is no token; the words are the API server's, and name account and reason."""


class TokenSource(Protocol):
    """Who gives tokens out."""

    async def token(self, wish: TokenSpec) -> ServiceAccountToken:
        """Give a token that is not due for another one, asking for it where needed; raises TokenRefused."""
        ...


class NoTokens:
    """A node without an API server."""

    async def token(self, wish: TokenSpec) -> ServiceAccountToken:
        """Refuse it, in the kubelet's words."""
        raise TokenRefused(
            f"failed to fetch token for service account {wish.namespace}/{wish.service_account}: "
            f"a node in standalone mode has nobody who issues them"
        )


@functools.lru_cache(maxsize=512)  # all tokens of a node are asked about whenever one of its pods shows another object
def due(version: str, seed: str) -> datetime:
    """Say when the token of some version is to be replaced: at 80 % of its life or after a day, a bit sooner by `seed`.

    pkg/kubelet/token requiresRefresh, whose jitter is drawn anew at each look; here one token has one.
    """
    issued, expires = (datetime.strptime(one, _TIME).replace(tzinfo=UTC) for one in version.split("/"))
    drawn = int.from_bytes(hashlib.sha256(f"{seed} {version}".encode()).digest()[:4]) / 2**32
    return min(issued + OLDEST, expires - (expires - issued) * 0.2) - JITTER * drawn
