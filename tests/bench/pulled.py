"""The rows of pods whose image must be pulled: from a slow registry, and for fifty pods at once.

The registry is on loopback (tests/node/images/registry.py); each lap has an image of its own with busybox's layers, so waiting is
measured and not unpacking.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from tests.bench.manifests import Container, Pod
from tests.bench.peers.peer import ManifestPeer
from tests.node.images.pull_nodes import served

SLOW_SECONDS: Final = 1.0
"""How long the registry delays its first response."""
SHARING: Final = 50
"""Pods with one image."""

_LONGEST: Final = 120.0


async def slow_pull(peer: ManifestPeer, name: str) -> float:
    """From writing the manifest to running, of a pod whose image the registry serves after a second."""
    (pod,), begun, ended, _ = await _pulled(peer, [name])
    await _gone(peer, [pod])
    return ended - begun


async def shared_pull(peer: ManifestPeer, name: str) -> tuple[float, float]:
    """From writing fifty manifests to the last pod running, and how often the registry was asked for their one image."""
    pods, begun, ended, pulls = await _pulled(peer, [f"{name}-{number}" for number in range(SHARING)])
    await _gone(peer, pods)
    return ended - begun, pulls


async def _pulled(peer: ManifestPeer, names: Sequence[str]) -> tuple[Sequence[Pod], float, float, float]:
    with served(peer.containerd, label=names[0], seconds_a_manifest=SLOW_SECONDS) as registry:
        image = f"{registry.host}/{names[0]}:1"
        fields = {"image": image, "imagePullPolicy": "IfNotPresent"}
        pods = [Pod(one, [Container("main", fields=fields)]) for one in names]
        async with asyncio.timeout(_LONGEST):
            begun = await peer.start(pods)
            ended = max([(await peer.cri.started(peer.pod_name(pod))).at for pod in pods])
        return pods, begun, ended, registry.pulls


async def _gone(peer: ManifestPeer, pods: Sequence[Pod]) -> None:
    await peer.delete(pods)
    for pod in pods:
        await peer.cri.sandbox_stopped(peer.pod_name(pod))
