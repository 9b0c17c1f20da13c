"""One run of the benchmark: peers side by side, lap after lap in turn, with all results kept for the report.

Peers take turns within each pair, and the first one alternates, so that other load on the machine affects all of them. A lap
that fails counts as failed and the run continues.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import grpc.aio

from tests.bench.cri import TooSlow
from tests.bench.fleet import Fleet, Idle
from tests.bench.manifests import Pod, with_exec_probe, with_three_probes
from tests.bench.peers.peer import Peer
from tests.bench.peers.tempolet import History, Tempolet
from tests.bench.probed_pods import ProbedPods
from tests.bench.single import LAPS, Figure, Lap
from tests.bench.table import Samples

FULL_NODE: Final = "fleet"
PROBES: Final = "probes"
EXEC_PROBES: Final = "exec"
ROWS: Final = (*(lap.name for lap in LAPS), FULL_NODE, PROBES, EXEC_PROBES)
PROBED_PODS: Final = {PROBES: with_three_probes, EXEC_PROBES: with_exec_probe}


@dataclass(frozen=True, slots=True)
class Plan:
    """How much to measure."""

    pairs: int = 20
    rounds: int = 3
    pods: int = 110
    settle_seconds: float = 30
    idle_seconds: float = 60
    rows: frozenset[str] = frozenset(ROWS)
    """The rows to measure; the plan's other values for the rest are ignored."""

    @property
    def laps(self) -> Sequence[Lap]:
        """List the requested laps of one pod."""
        return [lap for lap in LAPS if lap.name in self.rows] if self.pairs else ()

    @property
    def figures(self) -> Sequence[Figure]:
        """List the results of those laps."""
        return [figure for lap in self.laps for figure in lap.figures]


@dataclass(slots=True)
class Watched:
    """The history's length of one plain pod: when it first ran, and after some idle time."""

    at_start: History
    since: float = field(default_factory=time.monotonic)
    at_end: History | None = None
    seconds: float = 0


@dataclass(frozen=True, slots=True)
class Probed:
    """A peer's cost while it probed a full node."""

    cost: Idle
    answered: Mapping[str, float]
    """Probes per second, by kind; empty if only the container knows."""


@dataclass(slots=True)
class Session:
    """What is measured, and the results so far."""

    plan: Plan
    peers: Sequence[Peer]
    figures: dict[str, Samples] = field(default_factory=dict)
    fleet: Samples = field(default_factory=Samples)
    idle: dict[str, Idle] = field(default_factory=dict)
    probed: dict[str, dict[str, Probed]] = field(default_factory=dict)
    """By row, then by peer."""
    watched: Watched | None = None
    failures: list[str] = field(default_factory=list)
    say: Callable[[str], None] = print

    async def run(self) -> None:
        """Measure everything in the plan."""
        try:
            for peer in self.peers:
                await peer.connect()
            if self.plan.laps:
                await self._single_rows()
            for number in range(self.plan.rounds if FULL_NODE in self.plan.rows else 0):
                for peer in self._in_turn(number):
                    await self._fleet_round(peer, number)
            for row in (row for row in PROBED_PODS if row in self.plan.rows and self.plan.idle_seconds):
                for peer in self.peers:
                    if peer.processes:
                        await self._probed_round(peer, row)
        finally:
            for peer in self.peers:
                await peer.disconnect()

    def _in_turn(self, number: int) -> Sequence[Peer]:
        return self.peers if number % 2 == 0 else self.peers[::-1]

    async def _single_rows(self) -> None:
        for peer in self.peers:
            await self._laps(peer, 0)  # not counted: imports, caches, first connections
        self.figures = {figure: Samples() for figure in self.plan.figures}
        await self._begin_watching()
        for number in range(1, self.plan.pairs + 1):
            for peer in self._in_turn(number):
                measured = await self._laps(peer, number)
                for figure in self.plan.figures:
                    self.figures[figure].add(peer.name, measured[figure])
                words = ", ".join(f"{figure} {value:.3f}" for figure, value in measured.items())
                self.say(f"pair {number}/{self.plan.pairs}  {peer.name:9} {words}")
        await self._end_watching()

    async def _laps(self, peer: Peer, number: int) -> Mapping[Figure, float]:
        measured = dict.fromkeys(self.plan.figures, math.nan)
        for lap in self.plan.laps:
            if await self._attempt(f"{peer.name}, {lap.name} {number}", self._one_lap(peer, lap, number, measured)):
                continue
            await self._attempt(f"{peer.name}, removing what is left", self._tidy(peer))
        return measured

    @staticmethod
    async def _one_lap(peer: Peer, lap: Lap, number: int, measured: dict[Figure, float]) -> None:
        measured |= await lap.run(peer, number)

    @staticmethod
    async def _tidy(peer: Peer) -> None:
        await peer.delete_leftovers()
        await peer.cri.nothing_ready(within=60)

    async def _begin_watching(self) -> None:
        for peer in self.peers:
            if isinstance(peer, Tempolet):
                await self._attempt("the watched pod", self._watch(peer))

    async def _watch(self, peer: Tempolet) -> None:
        pod = Pod("watched")
        await peer.start([pod])
        await peer.cri.started(peer.pod_name(pod))
        self.watched = Watched(await peer.history_of(pod))
        self.say(f"history of one plain pod until running: {self.watched.at_start}")

    async def _end_watching(self) -> None:
        for peer in self.peers:
            if isinstance(peer, Tempolet) and self.watched is not None:
                self.watched.at_end = await peer.history_of(Pod("watched"))
                self.watched.seconds = time.monotonic() - self.watched.since
                await peer.delete([Pod("watched")])
                await self._attempt("removing the watched pod", peer.cri.nothing_ready(within=60))

    async def _fleet_round(self, peer: Peer, number: int) -> None:
        fleet = Fleet(peer, self.plan.pods, str(number))
        took: list[float] = []
        await self._attempt(f"{peer.name}, {self.plan.pods} pods", self._start_fleet(fleet, took))
        self.fleet.add(peer.name, took[0] if took else math.nan)
        if took:
            self.say(f"round {number + 1}/{self.plan.rounds}  {peer.name:9} {self.plan.pods} pods {took[0]:.1f} s")
        if took and number == 0 and peer.processes and self.plan.idle_seconds:
            idle = await fleet.idle(self.plan.settle_seconds, self.plan.idle_seconds)
            self.idle[peer.name] = idle
            self.say(f"idle  {peer.name:9} {idle}")
        await self._attempt(f"{peer.name}, removing {self.plan.pods} pods", fleet.end())

    async def _probed_round(self, peer: Peer, row: str) -> None:
        """Measure the cost of probes; the node's cost without probes is measured first, unless it already was."""
        if peer.name not in self.idle:
            plain = Fleet(peer, self.plan.pods, "plain")
            await self._attempt(f"{peer.name}, {self.plan.pods} pods", self._count_idle(plain, self.idle))
            await self._attempt(f"{peer.name}, removing {self.plan.pods} pods", plain.end())
        probed = Fleet(peer, self.plan.pods, row, PROBED_PODS[row])
        await self._attempt(f"{peer.name}, {row}", self._count_probes(probed, row))
        await self._attempt(f"{peer.name}, removing what was probed", probed.end())

    async def _count_idle(self, fleet: Fleet, into: dict[str, Idle]) -> None:
        await fleet.start()
        into[fleet.peer.name] = idle = await fleet.idle(self.plan.settle_seconds, self.plan.idle_seconds)
        self.say(f"idle  {fleet.peer.name:9} {idle}")

    async def _count_probes(self, fleet: Fleet, row: str) -> None:
        await fleet.start()
        async with ProbedPods() as server:
            if row == PROBES:
                await server.enter(await fleet.pids())
            await asyncio.sleep(self.plan.settle_seconds)
            before = await server.answered()
            cost = await fleet.idle(0, self.plan.idle_seconds)
            after = await server.answered()
        rates = {kind: (after[kind] - before.get(kind, 0)) / cost.seconds for kind in after}
        self.probed.setdefault(row, {})[fleet.peer.name] = Probed(cost, rates)
        self.say(f"{row}  {fleet.peer.name:9} {cost} {rates}")

    @staticmethod
    async def _start_fleet(fleet: Fleet, took: list[float]) -> None:
        took.append(await fleet.start())

    async def _attempt(self, what: str, work: Awaitable[None]) -> bool:
        """Do a piece of work; a failure is recorded and returns False."""
        try:
            await work
        except (TooSlow, grpc.aio.AioRpcError, OSError) as error:
            self.failures.append(f"{what}: {error}")
            self.say(f"FAILED {what}: {error}")
            return False
        return True
