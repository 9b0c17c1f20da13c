"""Chooses exclusive hardware for one pod after the other, and knows what each container has.

Used by the activity AllocateHardware and by the start of containers. Each kind of hardware is a `Provider`, asked one after the
other, devices last. A pod that one of them refuses leaves nothing behind. The files of all of them are written before the answer, so that a worker
that dies in between finds there what it has chosen.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

import structlog

from activities.hardware.services import NOTHING, ContainerHardware, HardwareRefused
from proto.cri.runtime_container import RuntimeContainer
from proto.temporal.hardware.ledger import (
    TOPOLOGY_AFFINITY,
    UNEXPECTED,
    AllocateHardware,
    ContainerAssignment,
    PodAssignment,
)
from proto.temporal.pod import PodJson
from worker.hardware.provider import Affinity, Hints, Provider
from worker.hardware.unread_containers import UNREAD, UnreadContainers
from worker.settings.hardware.topology_manager import NO_ALIGNMENT
from worker.telemetry.kubelet.resource_managers import ResourceManagerCounts, TopologyManagerCounts
from workflows.decide.cpus.cpu_sets import written_cpus
from workflows.decide.topology.policies import NONE as NO_POLICY
from workflows.decide.topology.scopes import CONTAINER, POD, TopologyAffinityError, TopologyManager

ALLOCATED_WITHIN: Final = 240.0
"""Seconds for a whole pod: less than the activity has, which would be tried again, while other pods wait for their turn."""
LEDGER_WITHIN: Final = 10.0
"""Seconds for which the start of a container waits for the ledger, if a state file is lost."""
FOUND_FOR: Final = 300.0
"""Seconds in which a pod that was found in the runtime keeps what it has, though its source has not listed it yet."""

_log: Final = structlog.get_logger(__name__)


class NodeHardware:
    """The hardware of one machine; used from one event loop."""

    def __init__(
        self,
        providers: Sequence[Provider],
        topology: TopologyManager = NO_ALIGNMENT,
        counts: TopologyManagerCounts | None = None,
        *,
        unread: UnreadContainers | None = None,
        is_lost: bool = False,
    ) -> None:
        """Take the kinds of hardware, and whether a state file is lost, so that the ledger alone may know what a pod was given."""
        self._unread = unread or UnreadContainers()
        self._ledger_taken, self._ledger_missed = asyncio.Event(), False
        if not is_lost:
            self._ledger_taken.set()
        self._providers, self._topology = providers, topology
        self._counts = counts or ResourceManagerCounts().topology
        if self._is_aligned:
            self._counts.begun()
        self._turn, self._in_line = asyncio.Lock(), 0
        self._begun: dict[tuple[str, str], None] = {}
        """Containers that have begun, by uid and name, of which it is noted later what their pods' init containers had."""
        self._over = set[str]()
        """Pods whose hardware is freed later."""
        self.expected = set[str]()
        """Pods that were admitted, and have not been seen on the node since."""
        self.arrived = set[str]()
        """Pods of which a container was about to start. Whoever looks for them empties it: one may come and go between two looks."""
        self.changed: Callable[[], None] = lambda: None
        """Called when somebody was given something, or something is free again."""
        self._found, self._found_until = frozenset[str](), 0.0

    def found(self, uids: Collection[str]) -> None:
        """Take the pods that were found in the runtime because a state file was lost: their sources may not have listed them yet."""
        self._found, self._found_until = frozenset(uids), monotonic() + FOUND_FOR

    @property
    def is_unknown(self) -> bool:
        """Whether it is not known yet what each container has, so that nobody may be given or told anything."""
        return bool(self._unread.why)

    async def recovered(self, left: Sequence[RuntimeContainer] | None) -> None:
        """Take what the runtime's containers have, now that it is known of each, or not waited for any more."""
        async with self._one_by_one():
            for one in self._providers if left is not None else ():
                one.recover(left or ())
            self.found({*self._found, *(one.uid for one in left or ())})
            self._unread.end()
            await self._save()
        self.changed()

    @property
    def awaits_ledger(self) -> bool:
        """Whether a state file is lost, and the ledger has not been asked yet what pods were given."""
        return not self._ledger_taken.is_set()

    async def take_ledger(self, assigned: Mapping[str, PodAssignment]) -> None:
        """Take what pods on the node were given: a pod that has its own in the ledger is not chosen for again."""
        async with self._one_by_one():
            for one in self._providers:
                one.keep(assigned, {*assigned, *self.holders(), *self._found})
            await self._save()
        self._ledger_taken.set()
        self.changed()

    async def allocate(self, request: AllocateHardware) -> PodAssignment:
        """Choose for a pod; raises HardwareRefused."""
        self._counts.asked()
        async with self._one_by_one():
            if why := self._unread.why:
                raise HardwareRefused(UNREAD, why)
            began, metadata = monotonic(), request.pod["metadata"]
            counting = {*request.counting, metadata["uid"], *(self._found if began < self._found_until else ())}
            for one in self._providers:
                one.keep(request.assigned, counting)
            before = [one.state() for one in self._providers]
            try:
                chosen = await self._allocate(request.pod)
            except BaseException:
                for one, state in zip(self._providers, before, strict=True):
                    one.restore(state)
                raise
            finally:
                self._counts.answered(monotonic() - began)
                await self._save()
                self.changed()
            self.expected.add(metadata["uid"])
            return self._assignment(request.pod, chosen)

    async def _allocate(self, pod: PodJson) -> dict[str, Affinity]:
        """Have each container given what it asks for, and count it; returns where."""
        chosen: dict[str, Affinity] = {}
        began = asyncio.get_running_loop().time()
        scope, is_guaranteed = self._topology.scope, self._topology.policy.guarantees_alignment
        try:
            for container, affinity in self._affinities(pod):
                chosen[container] = affinity
                await self._give(pod, container, affinity, until=began + ALLOCATED_WITHIN)
                if is_guaranteed and scope == CONTAINER:
                    self._counts.aligned(scope)
        except TopologyAffinityError as error:
            self._counts.refused()
            if is_guaranteed:
                self._counts.failed(scope)
            raise HardwareRefused(TOPOLOGY_AFFINITY, str(error)) from None
        except HardwareRefused:
            if self._is_aligned:
                self._counts.refused()
            raise
        if is_guaranteed and scope == POD:
            self._counts.aligned(scope)
        return chosen

    async def _give(self, pod: PodJson, container: str, affinity: Affinity, *, until: float) -> None:
        async with _within(until):
            for one in self._providers:
                await one.allocate(pod, container, affinity)

    @property
    def _is_aligned(self) -> bool:
        return self._topology.policy.name != NO_POLICY

    def _affinities(self, pod: PodJson) -> Iterator[tuple[str, Affinity]]:
        """Yield each container with the NUMA nodes for it; raises TopologyAffinityError."""
        asked = [_Asked(one, pod) for one in self._providers]
        return self._topology.affinities(_containers(pod), asked)

    def of(self, pod_uid: str, container: str) -> ContainerHardware:
        """Return what a container is created with."""
        made = NOTHING
        for one in self._providers:
            made = one.of(made, pod_uid, container)
        return made

    async def starting(self, pod_uid: str, container: Mapping[str, Any]) -> None:
        """Prepare what a container has, and free what the pod's init containers have that ended; raises HardwareRefused."""
        await self._ledger_awaited()
        for one in self._providers:
            if one.has_lost(pod_uid, container):
                await self._regain(one, pod_uid, container)
            await one.starting(pod_uid, container)  # a plugin that hangs here stops nobody else
        if pod_uid not in self.holders():
            return
        self.arrived.add(pod_uid)
        self.expected.discard(pod_uid)
        self._begun[pod_uid, str(container["name"])] = None
        await self._catch_up_soon()

    async def _ledger_awaited(self) -> None:
        if self._ledger_missed or not self.awaits_ledger:
            return
        try:
            async with asyncio.timeout(LEDGER_WITHIN):
                await self._ledger_taken.wait()
        except TimeoutError:
            _log.warning(
                "containers start without the CPUs and the memory that the ledger may have for them: it does not answer"
            )
            self._ledger_missed = True

    async def _regain(self, provider: Provider, pod_uid: str, container: Mapping[str, Any]) -> None:
        until = asyncio.get_running_loop().time() + ALLOCATED_WITHIN
        async with self._one_by_one():
            try:
                async with _within(until):
                    await provider.regain(pod_uid, container)
            finally:
                await self._save()
                self.changed()

    @property
    def is_idle(self) -> bool:
        """Whether nobody has anything, and no container is told which CPUs it may use."""
        return not self.holders() and self.of("", "") == NOTHING

    def is_quota_off(self, pod_uid: str) -> bool:
        """Report whether a container of the pod has CPUs of its own, so that its pod is not throttled."""
        return any(one.is_quota_off(pod_uid) for one in self._providers)

    def holders(self) -> set[str]:
        """Return the uids of the pods that have something."""
        return {uid for one in self._providers for uid in one.holders()}

    async def release(self, uids: Collection[str]) -> None:
        """Free what pods have that are over; while a plugin is waited for, after that."""
        self._over.update(uids)
        await self._catch_up_soon()

    @asynccontextmanager
    async def _one_by_one(self) -> AsyncIterator[None]:
        """Wait until nobody else is chosen for."""
        self._in_line += 1
        try:
            async with self._turn:
                await self._catch_up()
                try:
                    yield
                finally:
                    await self._catch_up()
        finally:
            self._in_line -= 1

    async def _catch_up_soon(self) -> None:
        """Do now what was noted, or leave it to who has the turn: that may take as long as a plugin that hangs, and nobody waits for it."""
        if not self._in_line:
            async with self._one_by_one():
                pass

    async def _catch_up(self) -> None:
        while self._begun or self._over:  # more may come while the files are written
            begun, self._begun = self._begun, {}
            over, self._over = self._over, set()
            started = [one.started(*container) for container in begun for one in self._providers]
            freed = [one.release(over) for one in self._providers] if over else []
            if any((*started, *freed)):
                await self._save()
            if any(freed):
                self.changed()

    async def _save(self) -> None:
        for one in self._providers:
            try:
                await asyncio.to_thread(one.save)
            except OSError as error:  # as a kubelet does; the ledger has it, too
                _log.error("could not write who has which hardware", err=str(error))

    def _assignment(self, pod: PodJson, chosen: Mapping[str, Affinity]) -> PodAssignment:
        metadata, containers, why = pod["metadata"], dict[str, ContainerAssignment](), list[str]()
        for name in _containers(pod):
            given = ContainerAssignment()
            for one in self._providers:
                given = one.given(given, metadata["uid"], name)
                why += filter(None, [one.why(pod, name)])
            why += filter(None, [self._why_there(name, chosen[name])])
            if given != ContainerAssignment():
                containers[name] = given
        return PodAssignment(metadata["namespace"], metadata["name"], containers, tuple(why))

    def _why_there(self, container: str, affinity: Affinity) -> str:
        """Say which NUMA nodes the topology manager chose; empty if it chose none."""
        if affinity.nodes is None:
            return ""
        agreed = (
            "could all be given there" if affinity.preferred else "could not all be given where it is best for each"
        )
        return (
            f"container {container} was aligned to NUMA node {written_cpus(affinity.nodes)}: topologyManagerPolicy is "
            f"{self._topology.policy.name}, its scope {self._topology.scope}, and what it asks for {agreed}"
        )


@dataclass(frozen=True, slots=True)
class _Asked:
    """A provider, asked about one pod."""

    provider: Provider
    pod: PodJson

    def container_hints(self, name: str) -> Hints:
        return self.provider.hints(self.pod, name)

    def pod_hints(self) -> Hints:
        return self.provider.pod_hints(self.pod)


@asynccontextmanager
async def _within(until: float) -> AsyncIterator[None]:
    """Refuse the hardware if it is not given by a time of the loop's clock."""
    try:
        async with asyncio.timeout_at(until):
            yield
    except TimeoutError:
        why = f"device plugins that have not answered within {ALLOCATED_WITHIN:g} s"
        raise HardwareRefused(UNEXPECTED, f"Allocate failed due to {why}, which is unexpected") from None


def _containers(pod: PodJson) -> list[str]:
    """List a pod's containers in the kubelet's order."""
    spec = pod["spec"]
    return [str(one["name"]) for kind in ("initContainers", "containers") for one in spec.get(kind) or ()]
