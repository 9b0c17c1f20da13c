"""The part of the poller that compares everything with everything: at the start, and once a minute (syncFrequency).

It lists the open workflows, compares the runtime with the snapshots, looks for orphaned pods, starts the node's own workflow
again where somebody has ended it, and tells what others did in Temporal. A message that does not find the node's workflow has it
started at once.
"""

import asyncio
import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import structlog

from proto.interventions import Intervention
from proto.pod_snapshot import PodSnapshot
from proto.temporal.names import node_workflow_id
from proto.temporal.node import NodeConfigured
from proto.temporal.signals import REBOOT
from worker.daemon.config import NodeConfig
from worker.daemon.freed_memory import give_back_freed_memory
from worker.daemon.health import LoopHealth
from worker.machine.boots import OF_POLLER, Boots
from worker.poller.calls.open_workflows import OpenPod, OpenWorkflows, told_foreign
from worker.poller.calls.pod_workflows import VISIBILITY_LAGS, PodWorkflows
from worker.poller.calls.temporal_calls import CallRefused, TemporalUnavailable
from worker.poller.node_pods import NodePods, may_be_listed
from worker.poller.runtime.known_pods import KnownPods
from worker.poller.runtime.orphaned_pods import OrphanedPods
from worker.poller.runtime.relist import RuntimePod, only_remembered
from worker.poller.runtime.unused_tickets import UnusedTickets
from worker.poller.runtime.watch import RuntimeWatch
from worker.temporal.interventions import LONGEST, Interventions, told_paused

if TYPE_CHECKING:
    from worker.poller.cluster.cluster_pods import ClusterPods

FIRST_ANSWER: Final = timedelta(seconds=5)
"""If Temporal's visibility takes longer, pods are listed without knowing which are open."""
RETRY_VISIBILITY: Final = timedelta(seconds=2)
"""The first pause after a failed list; it doubles up to syncFrequency."""
START_AGAIN: Final = 10.0
"""Seconds: no sooner after a start a message that does not find the node's workflow starts it again, however often somebody ends it."""
JITTER: Final = 0.25
NODE_ENDED: Final = "the node's own workflow is not open; starting it again"
_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResyncDependencies:
    """What Resync works with."""

    config: NodeConfig
    workflows: PodWorkflows
    pods: NodePods
    known: KnownPods
    watch: RuntimeWatch
    orphaned: OrphanedPods
    unused: UnusedTickets
    health: LoopHealth
    cluster: "ClusterPods | None"


class Resync:
    """The loops of one poller that list workflows."""

    def __init__(self, dependencies: ResyncDependencies) -> None:
        self._deps = dependencies
        config = dependencies.config
        self._interventions = Interventions(config.root_dir, "poller")
        self._configured = NodeConfigured(config.image_policy, config.tempolet.images.prepull)
        self._node_started_at: float | None = None
        self._node_tried_at: float | None = None
        """When it was last tried, whatever came of it."""
        self._configure = asyncio.Event()
        self._configure.set()
        self._restart_told = False
        self._boots = Boots(config.state_dir / OF_POLLER)
        self._known_before_boot = frozenset(dependencies.known.all()) if self._boots.is_new else frozenset()
        self._unshown: dict[str, bool] = {}
        """Open pods that the runtime has and whose snapshot cannot be read, and whether they were told to read the runtime."""

    async def learn_open_pods(self) -> None:
        """Find out which pods are open before the first listing, so that deletions are requested before starts."""
        try:
            async with asyncio.timeout(FIRST_ANSWER.total_seconds()):
                await self._list_open()
        except Exception as error:  # noqa: BLE001 - manifests are followed whatever Temporal says
            why = "which pods are open is not known yet: following manifests, deleting nothing"
            _log.warning(why, err=f"{type(error).__name__}: {error}"[:LONGEST])

    def tell_anew(self, workflow_ids: Collection[str]) -> None:
        """Send the configuration again if the lead of the node's own workflow has changed."""
        if node_workflow_id(self._deps.config.node_name) in workflow_ids:
            self._configure.set()

    def node_absent(self) -> None:
        """Have the node's workflow started at once, because a message has not found it."""
        is_settled = self._deps.workflows.deliveries.is_settled
        now = asyncio.get_running_loop().time()
        if not self._configure.is_set() and starts_again(now, self._node_tried_at, is_settled=is_settled):
            _log.warning(NODE_ENDED)
            self._node_tried_at = now
            self._configure.set()

    async def configure_node(self) -> None:
        """Send the configuration to the node's own workflow, once it is accepted, and after each change of its lead."""
        pause = RETRY_VISIBILITY
        while True:
            await self._configure.wait()
            self._configure.clear()
            try:
                await self._start_node()
                pause = RETRY_VISIBILITY
            except (TemporalUnavailable, CallRefused):
                self._configure.set()
                await self._deps.workflows.pause(spread(pause))
                pause = min(pause * 2, self._deps.config.sync_frequency)

    async def run(self) -> None:
        """Compare until cancelled."""
        deps, every = self._deps, self._deps.config.sync_frequency
        retry = min(RETRY_VISIBILITY, every)
        while True:
            deps.health.turn("resync", every)
            pods = await deps.watch.compare_as_backstop()
            pause = every.total_seconds()
            try:
                found = await self._list_open()
                await self._look_after(found)
                if deps.workflows.deliveries.is_settled:
                    await deps.unused.look(found.pods)
            except (TemporalUnavailable, CallRefused):
                pause, retry = spread(retry), min(retry * 2, every)
            else:
                retry = min(RETRY_VISIBILITY, every)
                if pods is not None:
                    await self._compare_snapshots(pods, found)
            give_back_freed_memory()
            if deps.workflows.deliveries.is_settled:
                await deps.workflows.pause(pause)
            else:  # nothing may be taken for orphaned yet; then at once everything is looked at again
                await deps.workflows.deliveries.settled(pause)

    async def _list_open(self) -> OpenWorkflows:
        """List the open workflows by visibility, and pass the pods on."""
        deps, asked_at = self._deps, asyncio.get_running_loop().time()
        found = await deps.workflows.list_open()
        seen = await asyncio.to_thread(deps.known.all)
        pods = [_with_source(OpenPod(one), seen) for one in found.pods]
        deps.pods.set_open(pods, asked_at)
        if deps.cluster:
            deps.cluster.look_again()
        if not self._restart_told:
            before = {pod.workflow_id for pod in pods if pod.id.uid in self._known_before_boot}
            deps.watch.restarted(before, REBOOT)
            deps.watch.restarted(pod.workflow_id for pod in pods if pod.workflow_id not in before)
            self._restart_told = True
            await asyncio.to_thread(self._boots.keep)
        return found

    async def _compare_snapshots(self, pods: Mapping[str, RuntimePod], found: OpenWorkflows) -> None:
        """Look for open pods whose snapshots are missing, and, once it is settled who leads, for pods without a workflow."""
        deps = self._deps
        seen = await asyncio.to_thread(deps.known.all)
        self._tell_unshown({one.workflow_id for uid, one in pods.items() if uid not in seen}, found)
        if deps.workflows.deliveries.is_settled:
            there = {**pods, **only_remembered(pods, seen)}
            wanted = {uid for uid in there if may_be_listed(deps.known, deps.pods, uid)}
            await deps.orphaned.look(there.values(), {OpenPod(one).id.uid for one in found.pods}, wanted)

    def _tell_unshown(self, missing: Collection[str], found: OpenWorkflows) -> None:
        """Tell pods without a readable snapshot at two comparisons in a row to read the runtime, once: so it is written again.

        A run in the worker's cache, or one that nothing has reached since the worker's start, would not write it by itself.
        """
        unshown = [one for one in found.pods if one in missing]
        again = [one for one in unshown if self._unshown.get(one) is False]
        self._unshown = {one: one in self._unshown for one in unshown}
        if again:
            _log.warning(
                "the snapshots of pods are missing or damaged: these pods read the runtime again", workflows=again
            )
            self._deps.watch.tell_anew(again)

    async def _look_after(self, found: OpenWorkflows) -> None:
        """Start the node's workflow again if it was ended, and tell of paused and foreign workflows."""
        at = self._node_started_at
        if not found.node and at is not None and asyncio.get_running_loop().time() - at >= VISIBILITY_LAGS:
            _log.warning(NODE_ENDED)
            await self._start_node()
        told = [told_foreign(one) for one in found.foreign]
        told += [await self._told_paused(one) for one in found.paused]
        self._interventions.tell(told)

    async def _told_paused(self, workflow_id: str) -> Intervention:
        known = [one for one in self._interventions.told if one.workflow_id == workflow_id]
        return known[0] if known else told_paused(workflow_id, await self._deps.workflows.described(workflow_id))

    async def _start_node(self) -> None:
        at = self._node_tried_at = asyncio.get_running_loop().time()
        await self._deps.workflows.configure_node(self._configured)
        self._node_started_at = at


def starts_again(now: float, tried_at: float | None, *, is_settled: bool) -> bool:
    """Report whether the node's workflow that a message has not found is started before the next comparison.

    Not before the first start, which is repeated until it is accepted. Not while the worker compares what Temporal has with what the
    node has: it may lead what Temporal lacks.
    """
    return is_settled and tried_at is not None and now - tried_at >= START_AGAIN


def spread(pause: timedelta) -> float:
    """Return the seconds of a pause, varied so that many nodes do not ask at once."""
    return pause.total_seconds() * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - spread, not secrecy


def _with_source(pod: OpenPod, seen: dict[str, PodSnapshot]) -> OpenPod:
    """Add the pod's source and manifest, as far as its snapshot has them."""
    snapshot = seen.get(pod.id.uid)
    return OpenPod(pod.workflow_id, snapshot.path, snapshot.source) if snapshot else pod
