"""Has DRA drivers prepare the claims of pods and undo them, and keeps account of it: the kubelet's DRA manager (cm/dra/manager.go).

Used by the activities PrepareResources and UnprepareResources, and by the start of containers. A claim is in the kubelet's own file,
`<root-dir>/dra_manager_state`, before its drivers are asked, and until all of them have undone it. So a worker that dies in between undoes it,
too. All drivers of a pod are asked side by side, each once for all claims; pods wait for each other only for a claim that they share.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import structlog

from activities.clients.dra.dra_drivers import DraDrivers, DriverMissing
from activities.dra.services import ResourcesRefused
from activities.execution.pod_locks import PodLocks
from activities.files.atomic_files import write_atomically
from proto.dra.claims import Claim, ClaimAnswer
from proto.dra.pod_claims import ClaimUnknown, container_uses, named_claims
from proto.temporal.activities.claims import PreparedResources
from proto.temporal.pod import PodJson, PodKey
from worker.dra.counts import Counts, Uncounted
from worker.settings.kubelet.configuration import ConfigurationRefused
from workflows.decide.claims.accounts import (
    Accounts,
    ClaimAccount,
    Key,
    by_driver,
    cdi_devices,
    in_use,
    orphans,
    prepared_resources,
    used_by,
    with_pod,
)
from workflows.decide.claims.allocated import AllocatedClaim, ClaimRefused, allocated
from workflows.decide.claims.answers import checked
from workflows.decide.claims.checkpoint import STATE_FILE, CheckpointError, read_checkpoint, written_checkpoint

if TYPE_CHECKING:
    from activities.clients.dra.dra_plugin import DraPlugin

MOST_CLAIMS: Final = 256
"""Of one pod."""
ReadClaim = Callable[[str, str], Awaitable[Mapping[str, Any]]]
"""Reads a ResourceClaim by namespace and name; raises ResourcesRefused."""
Call = Callable[["DraPlugin", Sequence[Claim]], Awaitable[Mapping[str, ClaimAnswer]]]

_Result = TypeVar("_Result")
_log: Final = structlog.get_logger(__name__)


class ClaimManager:
    """The claims of one node; used from one event loop."""

    def __init__(
        self,
        root_dir: Path,
        drivers: DraDrivers,
        read: ReadClaim,
        accounts: Accounts,
        *,
        counts: Counts = Uncounted(),  # noqa: B008 - it has no state
    ) -> None:
        self._file, self._drivers, self._read = root_dir / STATE_FILE, drivers, read
        self._accounts = dict(accounts)
        self._counts = counts
        counts.in_use(in_use(self._accounts))
        self._locks, self._writing = PodLocks(), asyncio.Lock()
        self._writes = set[asyncio.Task[None]]()

    @property
    def accounts(self) -> Accounts:
        """What is prepared, or may be."""
        return self._accounts

    async def prepare(self, pod: PodKey, pod_spec: PodJson) -> PreparedResources:
        """Prepare all claims of a pod; raises ResourcesRefused."""
        return await self._timed("PrepareResources", self._prepare(pod, pod_spec))

    async def unprepare(self, pod_uid: str) -> None:
        """Undo the claims that no other pod uses; raises ResourcesRefused."""
        await self._timed("UnprepareResources", self._unprepare(pod_uid))

    def cdi_devices(self, pod: Mapping[str, Any], container: Mapping[str, Any]) -> tuple[str, ...]:
        """List the CDI devices that a container gets; raises ValueError."""
        try:
            uses = container_uses(pod, container)
        except ClaimUnknown as error:
            raise ValueError(str(error)) from None
        return cdi_devices(self._accounts, str(pod["metadata"]["namespace"]), uses) if uses else ()

    async def undo_orphans(self, present: Collection[str]) -> None:
        """Undo the claims of pods that are not on this node any more; what fails is tried again the next time."""
        for uid in orphans(self._accounts, present):
            try:
                await self._unprepare(uid)
            except (ClaimRefused, DriverMissing) as error:
                _log.info("Unpreparing pod resources failed, will retry", podUID=uid, err=str(error))

    async def regain(self, pod: PodKey, pod_spec: PodJson) -> None:
        """Prepare the claims of a running pod that the state file has lost; what fails is tried again the next time."""
        try:
            await self._prepare(pod, pod_spec)
        except (ClaimRefused, ClaimUnknown, DriverMissing, ResourcesRefused) as error:
            _log.warning(
                "the claims of a pod are lost, and cannot be prepared again yet", podUID=pod.uid, err=str(error)
            )
        else:
            _log.info("prepared the claims of a pod again, which a lost state file did not know", podUID=pod.uid)

    async def _timed(self, operation: str, work: Awaitable[_Result]) -> _Result:
        clock, failed = asyncio.get_running_loop().time, True
        began = clock()
        try:
            result = await work
            failed = False
        except (ClaimRefused, ClaimUnknown, DriverMissing) as error:
            raise ResourcesRefused(str(error)) from None
        finally:
            self._counts.operated(operation, failed, clock() - began)
        return result

    async def _prepare(self, pod: PodKey, pod_spec: PodJson) -> PreparedResources:
        claims = await self._allocated(pod, pod_spec)
        plugins = {driver: self._drivers.get(driver) for one in claims for driver in one.drivers}
        async with AsyncExitStack() as locks:
            await self._lock(locks, [(one.claim.namespace, one.claim.name) for one in claims])
            found = [with_pod(self._accounts, one, pod.uid) for one in claims]
            await self._know(found)
            asked = [one for one in found if not one.is_prepared]
            answers = await self._ask(
                "NodePrepareResources", by_driver(asked), plugins, lambda plugin, batch: plugin.prepare(batch)
            )
            await self._know(_with_devices(self._accounts[one.key], answers) for one in asked)
            return prepared_resources(self._accounts[one.key] for one in found)

    async def _allocated(self, pod: PodKey, pod_spec: PodJson) -> list[AllocatedClaim]:
        """Read the pod's claims; raises ClaimUnknown, ClaimRefused and ResourcesRefused. Nothing is begun yet."""
        named = named_claims(pod_spec)
        if len(named) > MOST_CLAIMS:
            raise ClaimRefused(f"the pod has {len(named)} resource claims, more than {MOST_CLAIMS}")
        found = [allocated(pod, one, await self._read(pod.namespace, one.name)) for one in dict.fromkeys(named)]
        return list({one.claim: one for one in found}.values())

    async def _unprepare(self, pod_uid: str) -> None:
        async with AsyncExitStack() as locks:
            await self._lock(locks, [one.key for one in used_by(self._accounts, pod_uid)])
            used = used_by(self._accounts, pod_uid)
            if not used:
                return
            last = [one for one in used if len(one.pods) == 1]
            batches = by_driver(last)
            plugins = {driver: self._drivers.get(driver) for driver in batches}
            await self._ask("NodeUnprepareResources", batches, plugins, lambda plugin, batch: plugin.unprepare(batch))
            for one in last:
                del self._accounts[one.key]
            try:
                await self._know(replace(one, pods=one.pods - {pod_uid}) for one in used if len(one.pods) > 1)
            except ClaimRefused:
                self._accounts |= {one.key: one for one in last}
                raise

    async def _lock(self, locks: AsyncExitStack, keys: Iterable[Key]) -> None:
        for namespace, name in sorted(set(keys)):  # in one order, so that two pods do not wait for each other
            await locks.enter_async_context(self._locks.hold(f"{namespace}/{name}"))

    async def _ask(
        self, call: str, batches: Mapping[str, Sequence[Claim]], plugins: Mapping[str, "DraPlugin"], ask: Call
    ) -> dict[str, Mapping[str, ClaimAnswer]]:
        """Ask all drivers side by side; returns their answers by driver and claim uid. Raises ClaimRefused for the first that failed."""
        from activities.clients.dra.dra_plugin import DraPluginError  # noqa: PLC0415 - for whom has drivers

        async def one(driver: str) -> Mapping[str, ClaimAnswer]:
            try:
                return checked(call, batches[driver], await ask(plugins[driver], batches[driver]))
            except DraPluginError as error:
                raise ClaimRefused(f"{call}: {error}") from None

        answers = await asyncio.gather(*map(one, batches), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return {driver: answer for driver, answer in zip(batches, answers, strict=True) if isinstance(answer, Mapping)}

    async def _know(self, accounts: Iterable[ClaimAccount]) -> None:
        """Keep what has changed, on disk when this returns; raises ClaimRefused."""
        self._accounts |= {one.key: one for one in accounts}
        self._counts.in_use(in_use(self._accounts))
        write = asyncio.create_task(self._write())
        self._writes.add(write)
        write.add_done_callback(self._writes.discard)
        try:
            await asyncio.shield(write)  # a caller that is cancelled leaves no second writer of the file behind
        except OSError as error:
            raise ClaimRefused(f"checkpoint ResourceClaim state: {error}") from error

    async def _write(self) -> None:
        async with self._writing:
            text = written_checkpoint(self._accounts)
            await asyncio.to_thread(write_atomically, self._file, text.encode())


def _with_devices(account: ClaimAccount, answers: Mapping[str, Mapping[str, ClaimAnswer]]) -> ClaimAccount:
    devices = {driver: answers[driver][account.claim.uid].devices for driver in account.drivers}
    return replace(account, drivers=devices, is_prepared=True)


def load_accounts(root_dir: Path) -> Accounts:
    """Read what an earlier process or a kubelet has left; raises ConfigurationRefused for a file that cannot be used, and OSError."""
    file = root_dir / STATE_FILE
    try:
        return read_checkpoint(file.read_text())
    except FileNotFoundError:
        return {}
    except (UnicodeDecodeError, CheckpointError) as error:
        why = "checkpoint is corrupted: not text" if isinstance(error, UnicodeDecodeError) else error
        raise ConfigurationRefused(
            f"create ResourceClaim cache: GetOrCreate() on checkpoint state: failed to get checkpoint {STATE_FILE}: {why}; "
            f'drain this node and delete "{file}" before restarting'
        ) from error
