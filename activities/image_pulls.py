"""Pulls under way on this node: a bounded number at once, a bounded rate, and one pull for all who wait for an image.

A slow registry holds back only the pods that need it (kubernetes/kubernetes#109673): the rest go on as long as a place
is free. Who waits may leave; the pull ends when nobody waits any more.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

MAX_PARALLEL: Final = 4
REGISTRY_PULL_QPS: Final = 5  # KubeletConfiguration's defaults
REGISTRY_BURST: Final = 10


@dataclass(slots=True)
class _Pull:
    """One pull and the number of those who wait for it."""

    task: asyncio.Task[str]
    waiting: int = 0


class ImagePulls:
    """The node's one gate to registries; `qps` 0 means no limit of the rate."""

    def __init__(
        self, max_parallel: int = MAX_PARALLEL, *, qps: float = REGISTRY_PULL_QPS, burst: int = REGISTRY_BURST
    ) -> None:
        self._places = asyncio.Semaphore(max_parallel)
        self._pause = 1 / qps if qps > 0 else 0.0
        self._burst = max(1, burst)
        self._next_at = 0.0
        self._under_way: dict[str, _Pull] = {}

    async def pull(self, image: str, pull_image: Callable[[str], Awaitable[str]]) -> str:
        """Pull an image, or wait for the pull of it that is under way; answers its reference, raises its error.

        `pull_image` is called when there is a place for it, and not at all by those who share a pull.
        """
        pull = self._under_way.get(image)
        if pull is None:
            pull = _Pull(asyncio.create_task(self._run(image, pull_image), name=f"pull {image}"))
            self._under_way[image] = pull
        pull.waiting += 1
        try:
            return await asyncio.shield(pull.task)
        finally:
            pull.waiting -= 1
            if pull.waiting == 0:
                pull.task.cancel()
                if self._under_way.get(image) is pull:
                    del self._under_way[image]

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
