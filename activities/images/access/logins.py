"""All logins for an image: from the pod's pull secrets, then the node's own, then from credential providers.

Collected only when a registry is asked or the right to use an image is checked (image_manager.go
makeLookupPullCredentialsFunc).
"""

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from activities.images.access.image_names import repository
from activities.images.access.record_format import Rights
from activities.images.access.rights import rights_of
from activities.images.credentials.account_tokens import AskingPod
from activities.images.credentials.keyring import Credential, Keyring
from activities.images.credentials.node_logins import NodeLogins
from activities.images.credentials.providers import CredentialProvider, collect_logins
from activities.images.credentials.pull_secrets import pod_logins
from activities.objects.objects import ObjectSource
from activities.objects.tokens import BoundPod, NoTokens, TokenSource
from proto.temporal.activities.requests import PullImage

MOST_LOGINS: Final = 200
"""For one image: every one of them is asked about and recorded, and a pull secret has room for 5,000."""
_NO_TOKENS: Final = NoTokens()


@dataclass(frozen=True, slots=True)
class PullLogins:
    """The logins for one image, in the order in which they are tried."""

    credentials: tuple[Credential, ...] = field(default=(), repr=False)
    warnings: tuple[str, ...] = ()

    def digest(self) -> str:
        """Return a digest that identifies these logins; empty if there are none."""
        all_of_them = " ".join(one.login.digest() for one in self.credentials)
        return hashlib.sha256(all_of_them.encode()).hexdigest() if all_of_them else ""

    def rights(self) -> Rights:
        """Return what can give the pod a right to an image on the node: its secrets, in order, and its service account."""
        of = [rights_of(one) for one in self.credentials if one.source]
        secrets = tuple(secret for one in of for secret in one.secrets)
        accounts = tuple(account for one in of for account in one.service_accounts)
        return Rights(secrets, accounts[:1])


@dataclass(slots=True)
class ImageLogins:
    """Finds logins in the pod's secrets, in the node's own files and through credential providers."""

    node: NodeLogins = field(default_factory=NodeLogins)
    providers: Sequence[CredentialProvider] = ()
    admits: bool = True
    """A standalone node has no admission, so the pull secrets of service accounts are added here."""

    async def find(self, objects: ObjectSource, asked: PullImage, tokens: TokenSource = _NO_TOKENS) -> PullLogins:
        """Find the logins for an image; raises NotADockerConfig, which names the secret without one."""
        wanted = repository(asked.image)
        secrets = asked.secrets if self.admits else replace(asked.secrets, service_account="")
        of_pod = await pod_logins(objects, asked.pod.namespace, secrets)
        of_node = Keyring()
        of_node.add(await self.node.config())
        pod = BoundPod(asked.pod.namespace, asked.pod.name, asked.pod.uid)
        asking = AskingPod(pod, asked.secrets.service_account, objects, tokens)
        of_providers, warnings = await collect_logins(self.providers, wanted, asking)
        keyrings = (of_pod.keyring, of_node, of_providers)
        found = [one for keyring in keyrings for one in await asyncio.to_thread(keyring.lookup, wanted)]
        if len(found) > MOST_LOGINS:
            warnings.append(f"{len(found)} logins match {wanted}; the first {MOST_LOGINS} are tried")
        return PullLogins(tuple(found[:MOST_LOGINS]), (*of_pod.warnings, *warnings))
