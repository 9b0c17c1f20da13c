"""A full node: 110 pods started at once until the last one runs, and their cost while only probes run."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.bench.cri import CONTAINER_NAME
from tests.bench.manifests import Pod
from tests.bench.peers.peer import Peer
from tests.bench.peers.tempolet import Tempolet
from tests.bench.usage import busy_seconds, cpu_seconds, resident_mib

START_WITHIN: Final = 300.0
END_WITHIN: Final = 600.0
QUIET_FOR: Final = 20.0
QUIET_WITHIN: Final = 180.0
QUIET_BUSY: Final = 0.2
"""CPU seconds per second, all processes together."""


@dataclass(frozen=True, slots=True)
class Idle:
    """A peer's cost over a time with a full node."""

    seconds: float
    cpu_percent: Mapping[str, float]
    """Percent of one core, by process."""
    rss_mib: Mapping[str, float]
    events_added: int | None = None
    """Added to all histories together; None for a peer without any."""

    @property
    def cpu_total(self) -> float:
        """All processes together."""
        return sum(self.cpu_percent.values())


@dataclass(slots=True)
class Fleet:
    """A number of pods on one peer; `round_name` makes their names unique."""

    peer: Peer
    count: int
    round_name: str
    make: Callable[[str], Pod] = Pod
    pods: list[Pod] = field(init=False)

    def __post_init__(self) -> None:
        self.pods = [self.make(f"fleet-{self.round_name}-{number:03}") for number in range(self.count)]

    async def start(self) -> float:
        """Start all at once; returns the seconds until the last one runs."""
        asked = await self.peer.start(self.pods)
        return await self.peer.cri.all_started(self.count, START_WITHIN) - asked

    async def idle(self, settle: float, seconds: float) -> Idle:
        """Wait `settle` seconds, then measure for `seconds`."""
        await asyncio.sleep(settle)
        ours = self.peer if isinstance(self.peer, Tempolet) else None
        events_before = await ours.events_of_all() if ours else 0
        processes = self.peer.running()
        began, before = time.monotonic(), cpu_seconds(processes)
        await asyncio.sleep(seconds)
        passed, after = time.monotonic() - began, cpu_seconds(processes)
        return Idle(
            seconds=passed,
            cpu_percent={name: 100 * (after[name] - before[name]) / passed for name in after},
            rss_mib=resident_mib(processes),
            events_added=await ours.events_of_all() - events_before if ours else None,
        )

    async def pids(self) -> list[int]:
        """Return the PID of one process of each pod."""
        return [await self.peer.cri.pid(one.id) for one in await self.peer.cri.list_running({CONTAINER_NAME: "main"})]

    async def end(self) -> None:
        """Remove all, and wait until nothing is left to stop and the cleanup is over."""
        await self.peer.delete(self.pods)
        await self.peer.cri.nothing_ready(END_WITHIN)
        await quiet()


async def quiet() -> None:
    """Wait until the machine has been idle for a while.

    What an agent removes after its pods have stopped (the kubelet its containers, some 12 s later) would disturb the next one.
    """
    until, idle_since = time.monotonic() + QUIET_WITHIN, time.monotonic()
    while time.monotonic() < until and time.monotonic() - idle_since < QUIET_FOR:
        before = busy_seconds()
        await asyncio.sleep(1)
        if busy_seconds() - before > QUIET_BUSY:
            idle_since = time.monotonic()
