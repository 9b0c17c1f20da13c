"""The rows of a cluster: from creating a pod in the API until it is Running, a Deployment of 110 pods, and their cost when idle."""

import asyncio
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.bench.cluster.membership import AUDIT, requests_of
from tests.bench.cluster.observer import ApiObserver
from tests.bench.cluster.peers import ApiPeer
from tests.bench.cri import TooSlow
from tests.bench.fleet import Idle, quiet
from tests.bench.manifests import Pod
from tests.bench.single import GOLDEN, SETTLE
from tests.bench.table import ABSENT, Row, Samples, limit_row, render, seconds_row
from tests.bench.usage import cpu_seconds, resident_mib

POD_OWED: Final = {"kubelet": 1.2}
FLEET_OWED: Final = {"kubelet": 0.75}
RSS_OWED_MB: Final = 330
OURS: Final = ("worker", "poller", "node")
START_WITHIN: Final = 300.0
END_WITHIN: Final = 600.0


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """How much to measure."""

    pairs: int = 20
    rounds: int = 1
    pods: int = 110
    settle_seconds: float = 30
    idle_seconds: float = 300


@dataclass(slots=True)
class Race:
    """What is measured, and the results so far."""

    plan: ClusterPlan
    peers: Sequence[ApiPeer]
    observer: ApiObserver
    say: Callable[[str], None] = print
    running: Samples = field(default_factory=Samples)
    gone: Samples = field(default_factory=Samples)
    fleet: Samples = field(default_factory=Samples)
    idle: dict[str, Idle] = field(default_factory=dict)
    asked: dict[str, Counter[str]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    async def run(self) -> None:
        """Measure everything in the plan."""
        try:
            for peer in self.peers:
                await peer.connect()
                await self._lap(peer, 0)  # not counted: imports, caches, first connections
            self.running, self.gone = Samples(), Samples()
            for number in range(1, self.plan.pairs + 1):
                for peer in self._in_turn(number):
                    await self._lap(peer, number)
            for number in range(self.plan.rounds):
                for peer in self._in_turn(number):
                    await self._fleet(peer, number)
        finally:
            for peer in self.peers:
                await peer.disconnect()

    def _in_turn(self, number: int) -> Sequence[ApiPeer]:
        return self.peers if number % 2 == 0 else self.peers[::-1]

    async def _lap(self, peer: ApiPeer, number: int) -> None:
        pod = Pod(f"{peer.name}-{number}")
        took: list[float] = []

        async def live() -> None:
            asked = await peer.start([pod])
            took.append(await asyncio.to_thread(self.observer.running, pod.name) - asked)
            await asyncio.sleep(SETTLE + number * GOLDEN % 1.0)
            asked = await peer.delete([pod])
            took.append(await asyncio.to_thread(self.observer.gone, pod.name) - asked)

        if not await self._attempt(f"{peer.name}, pod {number}", live()):
            await peer.delete_leftovers()
        running, gone = [*took, math.nan, math.nan][:2]
        self.running.add(peer.name, running)
        self.gone.add(peer.name, gone)
        self.say(f"pair {number}/{self.plan.pairs}  {peer.name:9} running {running:.3f}, gone {gone:.3f}")

    async def _fleet(self, peer: ApiPeer, number: int) -> None:
        name = f"fleet-{peer.name}-{number}"
        took: list[float] = []

        async def live() -> None:
            asked = await peer.deploy(name, self.plan.pods)
            last = await asyncio.to_thread(self.observer.all_running, name, self.plan.pods, START_WITHIN)
            took.append(last - asked)

        await self._attempt(f"{peer.name}, {self.plan.pods} pods", live())
        self.fleet.add(peer.name, took[0] if took else math.nan)
        if took:
            self.say(f"round {number + 1}/{self.plan.rounds}  {peer.name:9} {self.plan.pods} pods {took[0]:.1f} s")
        if took and number == 0 and self.plan.idle_seconds:
            await self._count_idle(peer)
        await peer.undeploy(name)
        await self._attempt(f"{peer.name}, removing {self.plan.pods} pods", peer.cri.nothing_ready(END_WITHIN))
        await quiet()

    async def _count_idle(self, peer: ApiPeer) -> None:
        await asyncio.sleep(self.plan.settle_seconds)
        _, offset = requests_of(peer.membership.node, AUDIT.stat().st_size)
        processes = peer.running()
        began, before = time.monotonic(), cpu_seconds(processes)
        await asyncio.sleep(self.plan.idle_seconds)
        passed, after = time.monotonic() - began, cpu_seconds(processes)
        self.asked[peer.name], _ = requests_of(peer.membership.node, offset)
        busy = {one: 100 * (after[one] - before[one]) / passed for one in after}
        self.idle[peer.name] = Idle(passed, busy, resident_mib(processes))
        self.say(f"idle  {peer.name:9} {self.idle[peer.name]} {dict(self.asked[peer.name])}")

    async def _attempt(self, what: str, work: Awaitable[None]) -> bool:
        try:
            await work
        except (TooSlow, TimeoutError, OSError) as error:
            self.failures.append(f"{what}: {error}")
            self.say(f"FAILED {what}: {error}")
            return False
        return True


def report(race: Race) -> str:
    """Format the issue's table, and the notes below it."""
    return render(list(_rows(race)), list(_notes(race)))


def _rows(race: Race) -> Iterator[Row]:
    yield seconds_row("one pod, created in the API -> Running in the API, p50", race.running, POD_OWED)
    yield limit_row("... deleted -> gone from the API, grace 1 s, p50", race.gone, 0)
    if race.fleet.by_peer:
        yield seconds_row(f"{race.plan.pods} pods of a Deployment, last Running in the API", race.fleet, FLEET_OWED)
    if race.idle:
        yield _rss_row(race)
        yield _requests_row(race)
        yield _cpu_row(race)


def _rss_row(race: Race) -> Row:
    ours, kubelet = race.idle.get("tempolet"), race.idle.get("kubelet")
    mine = {name: ours.rss_mib[name] for name in OURS} if ours else {}
    return Row(
        title=f"RSS with {race.plan.pods} pods",
        ours=_sum(mine, " MB") if ours else ABSENT,
        kubelet=f"{kubelet.rss_mib['kubelet']:.0f} MB" if kubelet else ABSENT,
        owed=f"{RSS_OWED_MB} MB",
        met=sum(mine.values()) <= RSS_OWED_MB if ours else None,
    )


def _requests_row(race: Race) -> Row:
    rates = {peer: 60 * asked.total() / race.idle[peer].seconds for peer, asked in race.asked.items()}
    both = len(rates) > 1
    return Row(
        title=f"requests a minute with {race.plan.pods} idle pods",
        ours=f"{rates['tempolet']:.1f}" if "tempolet" in rates else ABSENT,
        kubelet=f"{rates['kubelet']:.1f}" if "kubelet" in rates else ABSENT,
        ratio=f"{rates['tempolet'] / rates['kubelet']:.2f} x kubelet" if both and rates["kubelet"] else ABSENT,
        owed="1 x kubelet",
        met=rates["tempolet"] <= rates["kubelet"] if both else None,
    )


def _cpu_row(race: Race) -> Row:
    busy = {peer: idle.cpu_percent for peer, idle in race.idle.items()}
    return Row(
        title=f"idle CPU with {race.plan.pods} pods, of one core",
        ours=_sum(busy["tempolet"], "%") if "tempolet" in busy else ABSENT,
        kubelet=_sum(busy["kubelet"], "%") if "kubelet" in busy else ABSENT,
    )


def _sum(parts: Mapping[str, float], unit: str) -> str:
    written = " + ".join(f"{name} {value:.1f}" for name, value in parts.items())
    return f"{sum(parts.values()):.1f}{unit} ({written})"


def _notes(race: Race) -> Iterator[str]:
    plan = race.plan
    yield (
        f"{plan.pairs} interleaved pairs, {plan.rounds} rounds of {plan.pods} pods; one control plane on the same machine, each agent "
        f"with its own containerd; idle counted over {plan.idle_seconds:g} s; requests by the API server's audit log."
    )
    for peer, asked in race.asked.items():
        yield f"{peer} asked: " + ", ".join(f"{what} {count}" for what, count in asked.most_common())
    for title, samples in (("running", race.running), ("gone", race.gone)):
        for peer, values in samples.by_peer.items():
            good = sorted(value for value in values if not math.isnan(value))
            if good:
                yield f"{title}, {peer}: {good[0]:.3f}-{good[len(good) // 2]:.3f}-{good[-1]:.3f} s"
    yield from (f"Failed: {failure}" for failure in race.failures)
