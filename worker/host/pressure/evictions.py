"""The worker's loop that relieves the node: every ten seconds, and sooner while memory may be short, it measures, judges, reclaims, and evicts one pod.

All judgements are the core's (`workflows/decide/eviction/rounds.py`); here they are carried out, with or without Temporal. A victim is
evicted by an Update of its own workflow, whoever leads it, so its history has the reason and why it was this pod. While nothing
is short, a round is a few short reads, and Temporal is not called.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Final

import structlog

from activities.clients.cri_error import CriError
from activities.machine.cgroup_hierarchies import Hierarchies
from activities.node_services import NodeServices
from proto.node_pressure import write_node_pressure
from proto.pod_snapshot import PodSnapshot
from proto.temporal.eviction.candidates import Candidate
from proto.temporal.eviction.pressure import Pressure
from proto.temporal.operator import EvictPod, Rejection, StopPod
from worker.daemon.config import NodeConfig
from worker.delivery.pod_requests import BY_THE_NODE, UNANSWERED, PodRequests
from worker.events.event import WARNING, TellOfNode
from worker.host.pressure.active_pods import ActivePod, active_pods
from worker.host.pressure.cleanups import Cleanups, within
from worker.host.pressure.memory_notices import MemoryNotices, NoNotices, memory_notices
from worker.host.pressure.reclaiming import Reclaiming
from worker.machine.monotonic_clock import monotonic_now
from worker.stats.node_stats import NodeStats, reader_of
from worker.stats.pressure.node_reading import Measured, Places, measure_node
from worker.telemetry.kubelet.evictions import EvictionCounts
from workflows.decide.eviction.messages import REASON, THRESHOLD_MET, attempting
from workflows.decide.eviction.observations import observations
from workflows.decide.eviction.rounds import (
    CLEANED_UP_WITHIN,
    EVERY,
    SOONEST,
    Facts,
    Round,
    Starved,
    Victim,
    begin_round,
    choose_victim,
    is_relieved,
    until_next_round,
    usages_to_hear_of,
)
from workflows.decide.node.pressure_decisions import Decision, conditions_changed, nobody_to_evict, reclaim_sufficed

LONGEST_MESSAGE: Final = 4096
"""What a pod takes."""
_OWN_THREAD: Final = ThreadPoolExecutor(1, "pressure")
"""Measurements do not wait behind volumes and logs whose file system hangs."""

_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionParts:
    """What the loop works with."""

    config: NodeConfig
    services: NodeServices
    pods: Callable[[], Iterable[PodSnapshot]]
    requests: PodRequests
    cleanups: Cleanups
    tell: TellOfNode
    counts: EvictionCounts
    decided: Callable[[Decision], None]
    """Takes each decision without a victim."""


class Evictions:
    """The eviction manager of one node; used from one event loop."""

    def __init__(self, parts: EvictionParts) -> None:
        self._parts, config = parts, parts.config
        self._hierarchies = Hierarchies.of_this_node()
        self._reader = reader_of(self._hierarchies)
        self._stats = NodeStats(config, parts.services.runtime)
        self._reclaiming = Reclaiming(parts.services, parts.pods, config.image_policy)
        self._places: Places | None = None
        self._pressure = Pressure()
        self._shown: tuple[str, ...] | None = None
        self._notices: MemoryNotices = NoNotices()
        self._next = EVERY

    async def run(self) -> None:
        """Judge and act until cancelled; after an eviction again as soon as the pod is cleaned up."""
        wanted, pods_cgroup = self._parts.config.eviction.kernel_notifies, self._parts.services.cgroups.node.pods
        with memory_notices(self._hierarchies, pods_cgroup, wanted=wanted) as self._notices:
            await self._rounds()

    async def _rounds(self) -> None:
        while True:
            self._notices.woken.clear()
            victim = await self.round()
            if victim is None:
                await asyncio.sleep(SOONEST.total_seconds())
                await within(self._next - SOONEST, self._notices.woken)
            elif not await within(CLEANED_UP_WITHIN, victim):
                _log.warning(
                    "an evicted pod is not cleaned up yet; judging anew", seconds=CLEANED_UP_WITHIN.total_seconds()
                )

    async def round(self) -> asyncio.Event | None:
        """Do one round; returns what is set once its victim is cleaned up, or None if nobody was evicted."""
        began, policy, found = monotonic_now(), self._parts.config.eviction, await self._measured()
        facts = Facts(observations(found.reading), disks=found.disks)
        judged = begin_round(policy, self._pressure, facts, monotonic_now())
        before = self._pressure.conditions
        self._pressure, self._next = judged.pressure, until_next_round(policy.thresholds, facts.observed)
        for decision in conditions_changed(policy, before, judged.pressure.conditions, facts.observed):
            self._parts.decided(decision)
        self._notices.set_at(usages_to_hear_of(policy.thresholds, found.reading), monotonic_now())
        await self._show(judged, facts)
        if not judged.starved:
            return None
        starved = judged.starved[0]
        self._parts.tell(WARNING, THRESHOLD_MET, attempting(starved.resource))
        pods = active_pods(self._parts.pods(), alone=self._parts.config.cluster is None)
        facts = await self._with_pods(facts, pods)
        if judged.reclaims:
            await self._reclaiming.do(judged.reclaims)
            after = await self._measured()
            if is_relieved(policy, after.disks, left := observations(after.reading)):
                self._parts.decided(reclaim_sufficed(starved, judged.reclaims, left))
                return None
        for one in judged.starved:
            self._parts.counts.ranked(str(one.threshold.signal), (monotonic_now() - began).total_seconds())
        return await self._evicted_one(starved, facts, pods)

    async def _evicted_one(self, starved: Starved, facts: Facts, pods: Mapping[str, ActivePod]) -> asyncio.Event | None:
        """Evict the first pod in rank that does not reject it."""
        every, refused = facts, list[str]()
        while victim := choose_victim(self._parts.config.eviction, starved, facts):
            uid = victim.pod.uid
            ended = self._parts.cleanups.expect(uid)
            try:
                rejected = await self._ask(victim, pods[uid])
            except UNANSWERED as error:
                _log.warning(
                    "could not evict a pod; judging anew", pod=victim.pod.full_name, podUID=uid, err=str(error)
                )
                self._parts.cleanups.forget(uid)
                return None
            if rejected is None:
                self._parts.counts.evicted(victim.signal)
                return ended
            self._parts.cleanups.forget(uid)
            _log.info("a pod is not evicted", pod=victim.pod.full_name, podUID=uid, reason=rejected.reason)
            refused.append(f"{victim.pod.full_name} rejects it: {rejected.reason}")
            facts = replace(facts, pods=[one for one in facts.pods if one.uid != uid])
        _log.warning("no pod can be evicted", signal=str(starved.threshold.signal))
        self._parts.decided(nobody_to_evict(starved, every, refused))
        return None

    async def _ask(self, victim: Victim, pod: ActivePod) -> Rejection | None:
        """Ask the pod's workflow; a pod that is being stopped gets less time for that."""
        _log.warning(
            "evicting a pod",
            pod=victim.pod.full_name,
            podUID=victim.pod.uid,
            signal=victim.signal,
            why=victim.because,
            gracePeriod=victim.grace_seconds,
        )
        grace, requests = timedelta(seconds=victim.grace_seconds), self._parts.requests
        if pod.is_terminating:
            stop = StopPod(BY_THE_NODE, grace)
            return await requests.ask(pod.workflow_id, stop)
        message = victim.message.encode()[:LONGEST_MESSAGE].decode(errors="ignore")
        evict = EvictPod(BY_THE_NODE, REASON, message, grace, why=victim.because, annotations=victim.annotations)
        return await requests.ask(pod.workflow_id, evict)

    async def _with_pods(self, facts: Facts, pods: Mapping[str, ActivePod]) -> Facts:
        """Measure the pods; without the runtime nothing is known of what they use."""
        candidates: list[Candidate] = [one.candidate for one in pods.values()]
        try:
            return replace(facts, pods=candidates, uses=await self._stats.uses())
        except (CriError, OSError) as error:
            _log.warning("could not measure what pods use; judging anew", err=str(error))
            return replace(facts, pods=())

    async def _measured(self) -> Measured:
        self._places = places = self._places or await self._found_places()
        places = places or Places(self._parts.config.root_dir, None, self._parts.services.cgroups.node.pods)
        return await asyncio.get_running_loop().run_in_executor(_OWN_THREAD, measure_node, self._reader, places)

    async def _found_places(self) -> Places | None:
        """Ask where the runtime keeps images and writable layers; None while it does not answer."""
        try:
            found = await self._parts.services.runtime.image_fs_info()
        except CriError as error:
            _log.warning("the disk of images is not measured yet: the runtime does not answer", err=str(error))
            return None
        images, layers = found.image_filesystems, found.container_filesystems
        if not images:
            return None
        return Places(
            self._parts.config.root_dir,
            Path(images[0].fs_id.mountpoint),
            self._parts.services.cgroups.node.pods,
            container_fs=Path(layers[0].fs_id.mountpoint) if layers else None,
        )

    async def _show(self, judged: Round, facts: Facts) -> None:
        """Tell the other processes of a changed condition."""
        conditions = judged.pressure.conditions
        if conditions == self._shown:
            return
        if self._shown is not None or conditions:
            left = {str(signal): f"{one.available} of {one.capacity}" for signal, one in facts.observed.items()}
            _log.info("pressure conditions changed", conditions=list(conditions), left=left)
        try:
            await asyncio.to_thread(write_node_pressure, self._parts.config.root_dir, conditions)
        except OSError as error:
            _log.warning("could not write the node's pressure; trying again", err=str(error))
        else:
            self._shown = conditions
