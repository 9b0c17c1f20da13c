"""What dynamic resource allocation needs on this node: its drivers, the account of claims, and the loops beside them.

Made by the worker of a cluster's node; a standalone node has no claims.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, nullcontext
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final

from activities.clients.api_server.api_server import ApiServer
from activities.clients.dra.dra_drivers import DraDrivers
from proto.dra.pod_claims import claims_slice
from proto.pod_snapshot import PodSnapshot
from proto.temporal.pod import Lifecycle, PodKey
from worker.daemon.background import in_background, repeat
from worker.dra.claim_manager import ClaimManager, load_accounts
from worker.dra.counts import Counts
from worker.dra.device_health import DevicesHealth, PodOf
from worker.dra.resource_claims import ResourceClaims
from worker.dra.resource_slices import ResourceSlices
from workflows.decide.claims.accounts import Accounts, used_by

RECONCILE_EVERY: Final = timedelta(seconds=60)
"""defaultReconcilePeriod."""
Snapshots = Callable[[], Iterable[PodSnapshot]]


class NodeClaims:
    """The drivers and claims of one node; used from one event loop."""

    def __init__(self, api: ApiServer, node: str, root_dir: Path, counts: Counts) -> None:
        """Read what was known before; raises ConfigurationRefused if that cannot be used, and OSError."""
        self.drivers = DraDrivers(counts.called)
        claims, known = ResourceClaims(api), load_accounts(root_dir)
        self.manager = ClaimManager(root_dir, self.drivers, claims.read, known, counts=counts)
        self._slices = ResourceSlices(api, node, self.drivers.is_usable)
        self.drivers.changed = self._slices.changed
        self._absent: frozenset[str] = frozenset()
        self._root_dir = root_dir
        self._health: DevicesHealth | None = None

    def watch_health(self, pod_of: PodOf, *, with_messages: bool) -> DevicesHealth:
        """Have the health of devices watched, and return what is known of it; before the first plugin registers."""
        found = DevicesHealth(self._root_dir, lambda: self.manager.accounts, pod_of, with_messages=with_messages)
        self.drivers.health = self._health = found
        return found

    @asynccontextmanager
    async def running(self, snapshots: Snapshots) -> AsyncIterator[None]:
        """Keep claims and ResourceSlices in order while the block runs; `snapshots` returns the node's pods."""
        reconcile = partial(repeat, RECONCILE_EVERY, partial(self.reconcile, snapshots))
        health = in_background("health of DRA devices", self._health.run) if self._health else nullcontext()
        try:
            async with (
                in_background("claims of pods", reconcile),
                in_background("ResourceSlices", self._slices.run),
                health,
            ):
                yield
        finally:
            self.drivers.changed, self.drivers.health = lambda _: None, None  # they are not gone: this process ends
            await self.drivers.close()
            if self._health:
                await self._health.save()

    async def reconcile(self, snapshots: Snapshots) -> None:
        """Undo claims that have lost their pod, and prepare again those of pods that a lost state file does not know."""
        found = tuple(snapshots())
        await self._undo_orphans({one.uid for one in found})
        lost = [one for one in found if is_without_claims(one, self.manager.accounts)]
        regaining = (
            self.manager.regain(PodKey(one.namespace, one.name, one.uid), claims_slice(one.pod)) for one in lost
        )
        await asyncio.gather(*regaining)

    async def _undo_orphans(self, present: set[str]) -> None:
        """Undo the claims of pods that were not here the last time either: a pod that is about to begin has no snapshot yet."""
        holders = {uid for one in self.manager.accounts.values() for uid in one.pods}
        absent = frozenset(holders - present)
        await self.manager.undo_orphans(present | (holders - (absent & self._absent)))
        self._absent = absent


def is_without_claims(pod: PodSnapshot, accounts: Accounts) -> bool:
    """Report whether a pod has a sandbox, which is made after its claims were prepared, and none of them is known."""
    lives = pod.lifecycle == Lifecycle.SYNC and bool(pod.sandbox_id) and pod.sandbox_ready and not pod.deleting
    return lives and pod.may_have_claims and bool(pod.pod) and not used_by(accounts, pod.uid)
