"""The rows of one pod at a time: until it runs, alone or after other containers, after a crash, and its removal.

Also the delay until a probe's verdict takes effect. Each lap has a new pod with a new name: no back-off, no leftovers.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tests.bench.manifests import Pod, with_http_probe, with_init, with_sidecars, with_volumes
from tests.bench.peers.peer import ManifestPeer, Peer
from tests.bench.probed_server import HOST, ProbedServer
from tests.bench.pulled import shared_pull, slow_pull

SETTLE: Final = 0.5
"""Delay between a pod's start and the next step, so that nothing of the start is still in progress."""
GOLDEN: Final = 0.618
"""Its multiples are spread evenly over a second."""


class Figure(StrEnum):
    """A measured duration of one pod, in seconds."""

    RUNNING = "running"
    INIT_RUNNING = "init running"
    SIDECARS_RUNNING = "sidecars running"
    VOLUMES_RUNNING = "volumes running"
    VOLUMES_ADD = "volumes add"
    SLOW_PULL = "slow pull running"
    SHARED_PULL = "fifty of one image running"
    SHARED_PULLS = "pulls of fifty pods' one image"
    RESTARTED = "restarted"
    READY = "ready"
    TERMINATED = "terminated"
    STOPPED = "stopped"
    SANDBOX_STOPPED = "sandbox stopped"


async def _plain(peer: Peer, name: str, settle: float) -> dict[Figure, float]:
    """From writing the manifest to running; from removing it to stopped, and its sandbox."""
    pod = Pod(name)
    asked = await peer.start([pod])
    running = (await peer.cri.started(peer.pod_name(pod))).at - asked
    await asyncio.sleep(settle)
    stopped, sandbox_stopped = await _delete(peer, pod)
    return {Figure.RUNNING: running, Figure.STOPPED: stopped, Figure.SANDBOX_STOPPED: sandbox_stopped}


async def _init(peer: Peer, name: str, settle: float) -> dict[Figure, float]:
    """From writing the manifest to running, with three init containers before."""
    pod = with_init(name)
    asked = await peer.start([pod])
    running = (await peer.cri.started(peer.pod_name(pod))).at - asked
    await asyncio.sleep(settle)
    await _delete(peer, pod)
    return {Figure.INIT_RUNNING: running}


async def _sidecars(peer: Peer, name: str, settle: float) -> dict[Figure, float]:
    """From writing the manifest to the last container running, after three sidecars that each had to start."""
    pod = with_sidecars(name)
    asked = await peer.start([pod])
    running = max([(await peer.cri.started(peer.pod_name(pod), one.name)).at for one in pod.containers]) - asked
    await asyncio.sleep(settle)
    await _delete(peer, pod)
    return {Figure.SIDECARS_RUNNING: running}


async def _volumes(peer: Peer, name: str, settle: float) -> dict[Figure, float]:
    """From writing the manifest to running, with ten volumes, and how much longer than without, measured just before and after."""
    if not isinstance(peer, ManifestPeer):
        return {}
    took = []
    for pod in (Pod(f"{name}-before"), with_volumes(name, objects=peer.knows_objects), Pod(f"{name}-after")):
        asked = await peer.start([pod])
        took.append((await peer.cri.started(peer.pod_name(pod))).at - asked)
        await asyncio.sleep(settle)
        await _delete(peer, pod)
    before, with_ten, after = took
    return {Figure.VOLUMES_RUNNING: with_ten, Figure.VOLUMES_ADD: with_ten - (before + after) / 2}


async def _crash(peer: Peer, name: str, settle: float) -> dict[Figure, float]:
    """From the main process's kill to the next attempt running, both by the runtime's own timestamps."""
    pod = Pod(name)
    await peer.start([pod])
    first = await peer.cri.started(peer.pod_name(pod))
    await asyncio.sleep(settle)
    process = await peer.cri.pid(first.container_id)
    os.kill(process, signal.SIGKILL)
    finished = await peer.cri.finished_at(first.container_id)
    again = await peer.cri.started(peer.pod_name(pod), attempt=1)
    await asyncio.sleep(settle)
    await _delete(peer, pod)
    return {Figure.RESTARTED: again.at - finished}


async def _slow_pull(peer: Peer, name: str, _: float) -> dict[Figure, float]:
    """From writing the manifest to running, of a pod whose image takes a second to pull."""
    return {Figure.SLOW_PULL: await slow_pull(peer, name)} if isinstance(peer, ManifestPeer) else {}


async def _shared_pull(peer: Peer, name: str, _: float) -> dict[Figure, float]:
    """From writing fifty manifests to the last pod running, with one missing image."""
    if not isinstance(peer, ManifestPeer):
        return {}
    last, pulls = await shared_pull(peer, name)
    return {Figure.SHARED_PULL: last, Figure.SHARED_PULLS: pulls}


async def _ready(peer: Peer, name: str, settle: float) -> dict[Figure, float]:
    """From the answer of the first successful probe to Ready in the status that the agent shows."""
    if not isinstance(peer, ManifestPeer):
        return {}
    async with ProbedServer(passing=False) as server:
        pod = with_http_probe(name, "readinessProbe", HOST, server.port)
        await peer.start([pod])
        await peer.cri.started(peer.pod_name(pod))
        await server.asked()
        await peer.pod_status(pod)  # so that the time to reach the agent is not counted
        await asyncio.sleep(settle)
        succeeded = await server.turned(passing=True)
        ready = await peer.ready(pod)
        await _delete(peer, pod)
    return {Figure.READY: ready - succeeded}


async def _liveness(peer: Peer, name: str, settle: float) -> dict[Figure, float]:
    """From the answer of the failed probe to the process's exit, which follows SIGTERM at once."""
    if not isinstance(peer, ManifestPeer):
        return {}
    async with ProbedServer(passing=True) as server:
        pod = with_http_probe(name, "livenessProbe", HOST, server.port)
        await peer.start([pod])
        first = await peer.cri.started(peer.pod_name(pod))
        await server.asked()
        await asyncio.sleep(settle)
        failed = await server.turned(passing=False)
        server.passing = True
        finished = await peer.cri.finished_at(first.container_id)
        await peer.cri.started(peer.pod_name(pod), attempt=1)
        await _delete(peer, pod)
    return {Figure.TERMINATED: finished - failed}


async def _delete(peer: Peer, pod: Pod) -> tuple[float, float]:
    asked = await peer.delete([pod])
    name = peer.pod_name(pod)
    stopped = await peer.cri.stopped(name) - asked
    return stopped, await peer.cri.sandbox_stopped(name) - asked


@dataclass(frozen=True, slots=True)
class Lap:
    """One pod's life, from its manifest to its removal."""

    name: str
    live: Callable[[Peer, str, float], Awaitable[Mapping[Figure, float]]]
    figures: Sequence[Figure]

    async def run(self, peer: Peer, number: int) -> Mapping[Figure, float]:
        """Run it once; the start is shifted within the second each time, for agents that poll once a second."""
        settle = SETTLE + number * GOLDEN % 1.0
        return await self.live(peer, f"{self.name}-{number}", settle)


LAPS: Final = (
    Lap("plain", _plain, (Figure.RUNNING, Figure.STOPPED, Figure.SANDBOX_STOPPED)),
    Lap("init", _init, (Figure.INIT_RUNNING,)),
    Lap("sidecars", _sidecars, (Figure.SIDECARS_RUNNING,)),
    Lap("volumes", _volumes, (Figure.VOLUMES_RUNNING, Figure.VOLUMES_ADD)),
    Lap("slow-pull", _slow_pull, (Figure.SLOW_PULL,)),
    Lap("shared-pull", _shared_pull, (Figure.SHARED_PULL, Figure.SHARED_PULLS)),
    Lap("crash", _crash, (Figure.RESTARTED,)),
    Lap("ready", _ready, (Figure.READY,)),
    Lap("liveness", _liveness, (Figure.TERMINATED,)),
)
