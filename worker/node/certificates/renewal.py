"""The node's certificates, renewed in time: the one it shows the API server, the one its own API shows.

Two parts of the node process. At 70 to 90 % of its life, or when the node has another address, a certificate is asked for
anew and its link switched; every process takes up what a link names by itself (`activities/clients/api_server`, `worker/api`). Until a new one
is issued the old one is used, and each failure is counted for the alerts that the kubelet's dashboards have.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import structlog

from activities.clients.api_server.api_server import ApiAway, ApiRefused
from activities.clients.api_server.resources import NODES
from worker.node.certificates.request import NotIssued, certificate_for
from worker.node.certificates.signing import Wanted, client_certificate, new_key, renew_at, serving_certificate
from worker.node.certificates.store import CLIENT, SERVER, CertificateStore, Pair, StoreRefused
from worker.node.process.certificate_facts import CertificateFacts
from worker.node.process.dependencies import Around
from worker.node.process.threads import in_own_thread

LOOK: Final = timedelta(minutes=5)
"""Between two looks at the clock and the node's addresses; a certificate lives for months, at the least for ten minutes."""
LOOK_FOR_ADDRESSES: Final = timedelta(seconds=2)
FIRST_PAUSE: Final = 2.0
LONGEST_PAUSE: Final = 32.0

_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Kept:
    """One certificate that is kept."""

    around: Around
    store: CertificateStore
    wanted: Callable[[], Awaitable[Wanted | None]]
    facts: CertificateFacts

    async def keep(self) -> None:
        """Renew it for ever."""
        pause, chance = FIRST_PAUSE, random.random()  # noqa: S311 - spreads a cluster's renewals, no secret
        while True:
            try:
                wait = await self.look(chance)
                pause = FIRST_PAUSE
            except (ApiAway, ApiRefused, NotIssued, StoreRefused, ValueError, OSError) as error:
                self.facts.renew_errors += 1
                said = str(error)
                _log.error("the certificate could not be renewed, it is tried again", of=self.store.prefix, err=said)
                wait, pause = timedelta(seconds=pause), min(pause * 2, LONGEST_PAUSE)
            await asyncio.sleep(wait.total_seconds())

    async def look(self, chance: float) -> timedelta:
        """Renew it if that is due; answers when to look again."""
        wanted = await self.wanted()
        pair = await in_own_thread(self.store.current)
        self.facts.not_after = pair.not_after if pair else None
        if wanted is None:
            return LOOK_FOR_ADDRESSES
        now = datetime.now(UTC)
        if (left := renew_at(pair, wanted, now, chance) - now) > timedelta(0):
            return min(left, LOOK)
        await self._renew(wanted, pair)
        return timedelta(seconds=1)

    async def _renew(self, wanted: Wanted, old: Pair | None) -> None:
        key = await in_own_thread(new_key)
        issued = await certificate_for(self.around.api, wanted, key)
        now = datetime.now(UTC)
        new = await in_own_thread(self.store.update, issued, key, now)
        self.facts.not_after = new.not_after
        self.facts.lived = now - old.not_before if old else None


async def keep_client_certificate(around: Around) -> None:
    """Renew what the node shows the API server; does nothing where neither rotateCertificates nor a bootstrap asks for it."""
    cluster = around.cluster
    if not cluster.rotates_client_certificate:
        return

    async def wanted() -> Wanted:
        return client_certificate(around.config.node_name)

    store = CertificateStore(cluster.cert_dir, CLIENT)
    await Kept(around, store, wanted, around.certificates.setdefault("client", CertificateFacts())).keep()


async def keep_serving_certificate(around: Around) -> None:
    """Renew what the node's own API shows; does nothing without serverTLSBootstrap."""
    if not around.cluster.serving.bootstrap:
        return

    async def wanted() -> Wanted | None:
        node: dict[str, Any] = {}
        try:
            node = await around.api.get(NODES.path(around.config.node_name))
        except ApiRefused as error:
            if not error.not_found:
                raise
        return serving_certificate(around.config.node_name, (node.get("status") or {}).get("addresses") or ())

    store = CertificateStore(around.cluster.cert_dir, SERVER)
    await Kept(around, store, wanted, around.certificates.setdefault("server", CertificateFacts())).keep()
