"""Rotates the node's client certificate and the serving certificate of its API.

Two parts of the node process. A certificate is replaced at 70 to 90 % of its lifetime, or when the node's addresses change, by
switching a symbolic link; every process reloads what the link points to (`activities/clients/api_server`, `worker/api`). The
old certificate stays in use until a new one is issued. Failures are counted under the kubelet's metrics, which alerts use.
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
from worker.node.certificates.signing import (
    DesiredCertificate,
    client_certificate,
    new_key,
    renew_at,
    serving_certificate,
)
from worker.node.certificates.store import CLIENT, SERVER, CertificateStore, Pair, StoreRefused
from worker.node.process.certificate_facts import CertificateFacts
from worker.node.process.dependencies import NodeDependencies
from worker.node.process.threads import in_node_thread

CHECK_EVERY: Final = timedelta(minutes=5)
"""How often expiry and the node's addresses are checked; a certificate lives for months, and at least for ten minutes."""
ADDRESSES_CHECK_EVERY: Final = timedelta(seconds=2)
FIRST_PAUSE: Final = 2.0
LONGEST_PAUSE: Final = 32.0

_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RenewedCertificate:
    """One certificate and its rotation."""

    deps: NodeDependencies
    store: CertificateStore
    wanted: Callable[[], Awaitable[DesiredCertificate | None]]
    facts: CertificateFacts

    async def run(self) -> None:
        """Rotate it until cancelled."""
        pause, chance = FIRST_PAUSE, random.random()  # noqa: S311 - spreads the renewals of a cluster's nodes; no secret
        while True:
            try:
                wait = await self.renew_if_due(chance)
                pause = FIRST_PAUSE
            except (ApiAway, ApiRefused, NotIssued, StoreRefused, ValueError, OSError) as error:
                self.facts.renew_errors += 1
                message = str(error)
                _log.error("the certificate could not be renewed, retrying", of=self.store.prefix, err=message)
                wait, pause = timedelta(seconds=pause), min(pause * 2, LONGEST_PAUSE)
            await asyncio.sleep(wait.total_seconds())

    async def renew_if_due(self, chance: float) -> timedelta:
        """Renew it if due; returns when to check again."""
        wanted = await self.wanted()
        pair = await in_node_thread(self.store.current)
        self.facts.not_after = pair.not_after if pair else None
        if wanted is None:
            return ADDRESSES_CHECK_EVERY
        now = datetime.now(UTC)
        if (left := renew_at(pair, wanted, now, chance) - now) > timedelta(0):
            return min(left, CHECK_EVERY)
        await self._renew(wanted, pair)
        return timedelta(seconds=1)

    async def _renew(self, wanted: DesiredCertificate, old: Pair | None) -> None:
        key = await in_node_thread(new_key)
        issued = await certificate_for(self.deps.api, wanted, key)
        now = datetime.now(UTC)
        new = await in_node_thread(self.store.update, issued, key, now)
        self.facts.not_after = new.not_after
        self.facts.lived = now - old.not_before if old else None


async def rotate_client_certificate(deps: NodeDependencies) -> None:
    """Rotate the client certificate, if rotateCertificates or a bootstrap kubeconfig is set."""
    cluster = deps.cluster
    if not cluster.rotates_client_certificate:
        return

    async def wanted() -> DesiredCertificate:
        return client_certificate(deps.config.node_name)

    store = CertificateStore(cluster.cert_dir, CLIENT)
    await RenewedCertificate(deps, store, wanted, deps.certificates.setdefault("client", CertificateFacts())).run()


async def rotate_serving_certificate(deps: NodeDependencies) -> None:
    """Rotate the serving certificate, if serverTLSBootstrap is set."""
    if not deps.cluster.serving.bootstrap:
        return

    async def wanted() -> DesiredCertificate | None:
        node: dict[str, Any] = {}
        try:
            node = await deps.api.get(NODES.path(deps.config.node_name))
        except ApiRefused as error:
            if not error.not_found:
                raise
        return serving_certificate(deps.config.node_name, (node.get("status") or {}).get("addresses") or ())

    store = CertificateStore(deps.cluster.cert_dir, SERVER)
    await RenewedCertificate(deps, store, wanted, deps.certificates.setdefault("server", CertificateFacts())).run()
