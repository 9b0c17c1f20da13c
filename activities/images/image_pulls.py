"""Pulls under way on this node: a bounded number at once, a bounded rate, and one pull for all who wait for an image.

A slow registry holds back only the pods that need it (kubernetes/kubernetes#109673): the rest go on as long as a place
is free. Who waits may leave; the pull ends when nobody waits any more. Where the kubelet refuses what comes too fast ("pull
QPS exceeded") and has the pod wait out a back-off, here it waits for its turn.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from activities.execution.single_flight import SingleFlight

MAX_PARALLEL: Final = 4
REGISTRY_PULL_QPS: Final = 5  # KubeletConfiguration's defaults
REGISTRY_BURST: Final = 10


def uncounted(_seconds: float, _size_bytes: int) -> None:
    """Count nothing."""


class ImagePulls:
    """The node's one gate to registries; `qps` 0 means no limit of the rate."""

    def __init__(
        self, max_parallel: int = MAX_PARALLEL, *, qps: float = REGISTRY_PULL_QPS, burst: int = REGISTRY_BURST
    ) -> None:
        self._places = asyncio.Semaphore(max_parallel)
        self._pause = 1 / qps if qps > 0 else 0.0
        self._burst = max(1, burst)
        self._next_at = 0.0
        self._under_way: SingleFlight[str] = SingleFlight()
        self.measure: Callable[[float, int], None] = uncounted
        """Takes how many seconds a pull took, and how many bytes the image has."""

    async def pull(self, image: str, pull_image: Callable[[str], Awaitable[str]], logins: str = "") -> str:
        """Pull an image, or wait for the pull of it that is under way; answers its reference, raises its error.

        Only who has the same `logins` shares a pull: what one may have the other may not. `pull_image` is called when there
        is a place for it, and not at all by those who share a pull.
        """
        return await self._under_way.run((image, logins), lambda: self._run(image, pull_image), f"pull {image}")

    async def _run(self, image: str, pull_image: Callable[[str], Awaitable[str]]) -> str:
        async with self._places:
            await self._wait_for_rate()
            return await pull_image(image)

    async def _wait_for_rate(self) -> None:
        """Let a burst through, then one pull in each pause; who comes too early waits, nobody is refused."""
        now = asyncio.get_running_loop().time()
        self._next_at = max(self._next_at, now - self._pause * (self._burst - 1))
        wait = self._next_at - now
        self._next_at += self._pause
        if wait > 0:
            await asyncio.sleep(wait)
