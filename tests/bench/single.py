"""The rows of one pod at a time: what a pod costs until it runs, with init containers or sidecars, after a crash, and to remove.

Laps, each with a fresh pod of a new name, so that nothing is carried over: no backoff, no leftover.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tests.bench.manifests import Pod, with_init, with_sidecars
from tests.bench.peers.peer import Peer

SETTLE: Final = 0.5
"""Between a pod's start and what is done to it next: nothing of its start is under way any more."""
GOLDEN: Final = 0.618
"""Its multiples spread evenly over a second."""


class Figure(StrEnum):
    """What is measured of one pod, in seconds."""

    RUNNING = "running"
    INIT_RUNNING = "init running"
    SIDECARS_RUNNING = "sidecars running"
    RESTARTED = "restarted"
    STOPPED = "stopped"
    SANDBOX_STOPPED = "sandbox stopped"


async def _plain(peer: Peer, pod: Pod, settle: float) -> dict[Figure, float]:
    """Manifest written -> running; manifest removed -> stopped, and its sandbox."""
    asked = await peer.start([pod])
    running = (await peer.cri.started(peer.pod_name(pod))).at - asked
    await asyncio.sleep(settle)
    stopped, sandbox_stopped = await _delete(peer, pod)
    return {Figure.RUNNING: running, Figure.STOPPED: stopped, Figure.SANDBOX_STOPPED: sandbox_stopped}


async def _init(peer: Peer, pod: Pod, settle: float) -> dict[Figure, float]:
    """Manifest written -> running, with three init containers on the way."""
    asked = await peer.start([pod])
    running = (await peer.cri.started(peer.pod_name(pod))).at - asked
    await asyncio.sleep(settle)
    await _delete(peer, pod)
    return {Figure.INIT_RUNNING: running}


async def _sidecars(peer: Peer, pod: Pod, settle: float) -> dict[Figure, float]:
    """Manifest written -> the last of the containers running, after three sidecars that each had to be found started."""
    asked = await peer.start([pod])
    name = peer.pod_name(pod)
    running = max([(await peer.cri.started(name, one.name)).at for one in pod.containers]) - asked
    await asyncio.sleep(settle)
    await _delete(peer, pod)
    return {Figure.SIDECARS_RUNNING: running}


async def _crash(peer: Peer, pod: Pod, settle: float) -> dict[Figure, float]:
    """Main process killed -> the next attempt runs, both by the runtime's own timestamps."""
    await peer.start([pod])
    name = peer.pod_name(pod)
    first = await peer.cri.started(name)
    await asyncio.sleep(settle)
    process = await peer.cri.pid(first.container_id)
    os.kill(process, signal.SIGKILL)
    finished = await peer.cri.finished_at(first.container_id)
    again = await peer.cri.started(name, attempt=1)
    await asyncio.sleep(settle)
    await _delete(peer, pod)
    return {Figure.RESTARTED: again.at - finished}


async def _delete(peer: Peer, pod: Pod) -> tuple[float, float]:
    asked = await peer.delete([pod])
    name = peer.pod_name(pod)
    stopped = await peer.cri.stopped(name) - asked
    return stopped, await peer.cri.sandbox_stopped(name) - asked


@dataclass(frozen=True, slots=True)
class Lap:
    """One pod's life, from its manifest to its end."""

    name: str
    live: Callable[[Peer, Pod, float], Awaitable[Mapping[Figure, float]]]
    figures: Sequence[Figure]
    make: Callable[[str], Pod] = Pod

    async def run(self, peer: Peer, number: int) -> Mapping[Figure, float]:
        """Live it once; an agent that looks once a second is met at another point of its second each time."""
        settle = SETTLE + number * GOLDEN % 1.0
        return await self.live(peer, self.make(f"{self.name}-{number}"), settle)


LAPS: Final = (
    Lap("plain", _plain, (Figure.RUNNING, Figure.STOPPED, Figure.SANDBOX_STOPPED)),
    Lap("init", _init, (Figure.INIT_RUNNING,), with_init),
    Lap("sidecars", _sidecars, (Figure.SIDECARS_RUNNING,), with_sidecars),
    Lap("crash", _crash, (Figure.RESTARTED,)),
)
