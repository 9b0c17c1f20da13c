"""Is the listing made that an opened event stream requires, whatever fails in between?"""

import asyncio
import contextlib
import tempfile
from pathlib import Path
from typing import Any

from activities.clients.runtime import RuntimeClient
from activities.clients.start_limit import StartLimit
from tests.worker.poller.runtime.fake_runtime import FakeRuntime
from worker.poller.runtime.health import RuntimeHealth
from worker.poller.runtime.known_pods import KnownPods
from worker.poller.runtime.watch import RuntimeWatch, WatchDependencies
from worker.telemetry.metrics import Metrics
from worker.temporal.signal_numbers import SignalNumbers


class Nobody:
    """Plays who is not asked where the runtime holds no pod."""

    numbers = SignalNumbers()

    def lost(self, _: str) -> None:
        """Take that a workflow is gone."""


async def test_a_listing_that_fails_after_the_stream_has_opened_is_made_again() -> None:
    """Earlier ends have no event, and the next regular listing would be a minute later."""
    listed_again = asyncio.Event()
    with tempfile.TemporaryDirectory(prefix="tpl.") as folder:  # a socket's path is short
        root = Path(folder)
        runtime = FakeRuntime(root / "cri.sock")

        def fail_once() -> None:
            """Fail the first listing."""
            if runtime.listings == 1:
                raise TimeoutError
            listed_again.set()

        runtime.after_listing = fail_once
        await runtime.start()
        client = RuntimeClient(runtime.endpoint, StartLimit(1))
        nobody: Any = Nobody()
        health = RuntimeHealth(client, root, lambda _: None)
        around = WatchDependencies(
            node="n",
            client=client,
            known=KnownPods(root, "n"),
            sources=nobody,
            workflows=nobody,
            health=health,
            metrics=Metrics("n"),
        )
        watch = RuntimeWatch(around)
        loops = asyncio.gather(watch.follow_events(), watch.relist())
        async with asyncio.timeout(10):
            await listed_again.wait()
        loops.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await loops
        await client.close()
        await runtime.stop()
