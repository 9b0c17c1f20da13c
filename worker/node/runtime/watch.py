"""Polls the container runtime's state for the node's status.

At the kubelet's intervals (updateRuntimeUp every 5 s, images every 30 s), but more often after a start until the runtime is
ready, so that the node becomes Ready as soon as its runtime is. A runtime that hangs delays nothing else.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

import structlog

from activities.clients.cri_error import CriError
from activities.clients.runtime import RuntimeClient
from worker.machine.monotonic_clock import monotonic_now
from worker.node.runtime.images import listed_images
from worker.node.runtime.state import RuntimeState, with_status

EVERY: Final = timedelta(seconds=5)
AT_FIRST: Final = timedelta(milliseconds=200)
FIRST_WITHIN: Final = timedelta(seconds=2)
FIRST_TURNS: Final = 600
"""Two minutes of them: the kubelet's nodeReadyGracePeriod."""
INVENTORY_EVERY: Final = timedelta(seconds=30)

log = structlog.get_logger(__name__)


class RuntimeWatch:
    """The runtime's last known state, updated by `run`."""

    def __init__(self, runtime: RuntimeClient, most_images: int, changed: Callable[[], None]) -> None:
        """Take the client, the image limit, and the function to call when the runtime's readiness changes."""
        self._runtime, self._most, self._changed = runtime, most_images, changed
        self._answered = asyncio.Event()
        self._logged = ""
        self._pod_cidrs = self._sent_cidrs = ""
        self.state = RuntimeState()

    @property
    def loops(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """The loops that poll."""
        return {"state of the runtime": self._conditions, "images and version of the runtime": self._inventory}

    async def poll_once(self) -> None:
        """Poll once before the first status: after a restart the status should not lack what it had."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST_WITHIN.total_seconds()):
                await self.poll_status()
                if self._answered.is_set():
                    await self.poll_inventory()

    async def poll_status(self) -> None:
        """Poll the status once; without an answer the state stays and ages."""
        before = self._troubles()
        try:
            answer = await self._runtime.abilities()
        except CriError as error:
            self._log_change(str(error))
        else:
            self.state = with_status(self.state, answer, monotonic_now())
            self._log_change("")
            if not self.state.runtime_trouble:
                self._answered.set()
        if self._troubles() != before:
            self._changed()

    async def poll_inventory(self) -> None:
        """Poll version and images once; what fails stays as it was."""
        try:
            version = await self._runtime.version()
            images = await self._runtime.list_images()
        except CriError as error:
            self._log_change(str(error))
            return
        self.state = replace(
            self.state,
            version=f"{version.runtime_name}://{version.runtime_version}",
            images=listed_images(images, self._most),
        )

    def set_pod_cidrs(self, cidrs: Sequence[str]) -> None:
        """Set the pod CIDRs that the cluster assigned; changes are sent to the runtime."""
        self._pod_cidrs = ",".join(cidrs)

    async def _send_pod_cidrs(self) -> None:
        """Send the pod CIDRs to runtimes that generate their CNI configuration from them.

        Retried until it succeeds (updatePodCIDR).
        """
        wanted = self._pod_cidrs
        if not wanted or wanted == self._sent_cidrs:
            return
        try:
            await self._runtime.update_runtime_config(wanted)
        except CriError as error:
            self._log_change(str(error))
            return
        log.info("pod CIDRs sent to the runtime", podCIDR=wanted)
        self._sent_cidrs = wanted

    async def _conditions(self) -> None:
        turns = 0
        while True:
            await self.poll_status()
            await self._send_pod_cidrs()
            turns += 1
            quickly = turns < FIRST_TURNS and self._troubles()
            turns = turns if quickly else FIRST_TURNS
            await asyncio.sleep((AT_FIRST if quickly else EVERY).total_seconds())

    async def _inventory(self) -> None:
        while True:
            await self._answered.wait()
            known = self.state.images is not None
            await self.poll_inventory()
            if not known:
                self._changed()
            await asyncio.sleep(INVENTORY_EVERY.total_seconds())

    def _troubles(self) -> tuple[str, ...]:
        return self.state.troubles(monotonic_now())

    def _log_change(self, trouble: str) -> None:
        """Log once that it does not answer, and once that it does again."""
        if trouble and not self._logged:
            log.warning("the container runtime does not answer, retrying", err=trouble)
        elif self._logged and not trouble:
            log.info("the container runtime answers again")
        self._logged = trouble
