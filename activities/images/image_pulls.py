"""Pulls under way on this node: limited in number and rate, and shared by all pods that wait for the same image.

A slow registry delays only the pods that need it (kubernetes/kubernetes#109673), as long as there are free slots. A
waiting activity may be cancelled; the pull is cancelled when no activity waits any more. Pulls above the rate wait for
their turn, where the kubelet refuses them ("pull QPS exceeded") and the pod waits for a back-off.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from activities.execution.single_flight import SingleFlight

MAX_PARALLEL: Final = 4
REGISTRY_PULL_QPS: Final = 5  # KubeletConfiguration's defaults
REGISTRY_BURST: Final = 10


def ignore_measurement(_seconds: float, _size_bytes: int) -> None:
    """Record nothing."""


class ImagePulls:
    """Limits and shares pulls; `qps` 0 means no rate limit."""

    def __init__(
        self, max_parallel: int = MAX_PARALLEL, *, qps: float = REGISTRY_PULL_QPS, burst: int = REGISTRY_BURST
    ) -> None:
        self._places = asyncio.Semaphore(max_parallel)
        self._pause = 1 / qps if qps > 0 else 0.0
        self._burst = max(1, burst)
        self._next_at = 0.0
        self._under_way: SingleFlight[str] = SingleFlight()
        self.measure: Callable[[float, int], None] = ignore_measurement
        """Called with the duration of a pull in seconds, and the image's size in bytes."""

    async def pull(self, image: str, pull_image: Callable[[str], Awaitable[str]], logins: str = "") -> str:
        """Pull an image, or wait for its pull under way; returns its reference, raises its error.

        Only callers with the same `logins` share a pull, because their rights differ otherwise. `pull_image` is called
        when there is a free slot, and not at all if a pull is shared.
        """
        return await self._under_way.run((image, logins), lambda: self._run(image, pull_image), f"pull {image}")

    async def _run(self, image: str, pull_image: Callable[[str], Awaitable[str]]) -> str:
        async with self._places:
            await self._wait_for_rate()
            return await pull_image(image)

    async def _wait_for_rate(self) -> None:
        """Let a burst through, then one pull per interval; early ones wait, none is refused."""
        now = asyncio.get_running_loop().time()
        self._next_at = max(self._next_at, now - self._pause * (self._burst - 1))
        wait = self._next_at - now
        self._next_at += self._pause
        if wait > 0:
            await asyncio.sleep(wait)
