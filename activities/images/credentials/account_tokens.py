"""Service account tokens for credential providers: who asks for an image, by a token that is bound to the pod.

Used by `providers` for a provider whose configuration has `tokenAttributes` (pkg/credentialprovider/plugin/plugin.go
serviceAccountProvider). A token is in memory and on the provider's stdin only, and a cache knows it by its hash.
"""

from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from activities.images.credentials.keyring import AccountSource
from activities.objects.objects import ObjectKind, ObjectMissing, ObjectRefused, ObjectSource
from activities.objects.tokens import BoundPod, TokenRefused, TokenSource, TokenSpec

Key = tuple[object, ...]

NO_ACCOUNT_KEY: Final[Key] = ()


class AccountRefused(Exception):
    """No token can be had; the message is the kubelet's."""


@dataclass(frozen=True, slots=True)
class TokenAttributes:
    """A provider's `tokenAttributes`."""

    audience: str
    requires_account: bool
    """It is not run for a pod without a service account."""
    required_annotations: tuple[str, ...] = ()
    """It is not run for an account without one of these."""
    optional_annotations: tuple[str, ...] = ()
    cached_per_token: bool = False
    """cacheType Token: an answer is for one token, instead of for all pods of the account."""


@dataclass(frozen=True, slots=True)
class AskingPod:
    """The pod that wants an image, and where its account and tokens are read."""

    pod: BoundPod
    account: str
    objects: ObjectSource
    tokens: TokenSource


@dataclass(frozen=True, slots=True)
class AccountToken:
    """What a provider gets of a service account."""

    source: AccountSource
    text: str = field(repr=False)
    annotations: tuple[tuple[str, str], ...]
    """Those that the configuration names, sorted."""

    @property
    def flight_key(self) -> Key:
        """Identifies what the provider is told beside the image."""
        return (self._hash, self.annotations)

    def cache_key(self, attributes: TokenAttributes) -> Key:
        """Identifies whom a cached answer is for."""
        account = (self.source.namespace, self.source.name, self.source.uid, self.annotations)
        return (*account, self._hash) if attributes.cached_per_token else account

    @property
    def _hash(self) -> str:
        return sha256(self.text.encode()).hexdigest()


async def account_token(attributes: TokenAttributes, asking: AskingPod) -> AccountToken | None:
    """Request the token; None if the account lacks a required annotation. Raises AccountRefused."""
    namespace, name = asking.pod.namespace, asking.account
    try:
        account = await asking.objects.get(ObjectKind.SERVICE_ACCOUNTS, namespace, name)
    except (ObjectMissing, ObjectRefused) as error:
        raise AccountRefused(f"failed to get service account: {error}") from error
    metadata = account.json.get("metadata") or {}
    held = metadata.get("annotations") or {}
    if any(key not in held for key in attributes.required_annotations):
        return None
    named = (*attributes.required_annotations, *attributes.optional_annotations)
    annotations = tuple(sorted((key, str(held[key])) for key in named if key in held))
    uid = str(metadata.get("uid") or "")
    spec = TokenSpec(namespace, name, (attributes.audience,), None, asking.pod, uid)
    try:
        token = await asking.tokens.token(spec)
    except TokenRefused as error:
        raise AccountRefused(f"failed to get service account token: {error}") from error
    return AccountToken(AccountSource(namespace, name, uid), token.text, annotations)
