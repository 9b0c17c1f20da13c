"""Does a loop in the background run while its block runs, and no longer?"""

import asyncio
import errno
from datetime import timedelta
from functools import partial

import pytest

from tests.patience import PATIENCE
from worker.daemon import loop_restarts
from worker.daemon.background import in_background, repeat
from worker.daemon.troubles import TROUBLES


class Action:
    """Counts its runs."""

    def __init__(self) -> None:
        self.runs = 0
        self.ran_twice = asyncio.Event()

    async def run(self) -> None:
        """Count one run."""
        self.runs += 1
        if self.runs == 2:
            self.ran_twice.set()


async def test_an_action_is_repeated_until_the_block_ends() -> None:
    """After the block its task is gone."""
    action, before = Action(), asyncio.all_tasks()
    async with asyncio.timeout(PATIENCE):
        async with in_background("test", partial(repeat, timedelta(milliseconds=1), action.run)):
            await action.ran_twice.wait()
        assert asyncio.all_tasks() == before


async def test_the_first_action_comes_after_the_first_wait() -> None:
    """A process that starts has other work to do first."""
    action = Action()
    async with in_background("test", partial(repeat, timedelta(hours=1), action.run)):
        await asyncio.sleep(0)
    assert action.runs == 0


async def test_an_action_that_fails_unexpectedly_is_repeated_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a disk is full for a while: the loops for volumes and CSI ended there for the life of the worker."""
    monkeypatch.setattr(loop_restarts, "FIRST_PAUSE", 0.01)
    action = Action()

    async def fail_once() -> None:
        await action.run()
        if action.runs == 1:
            raise OSError(errno.ENOSPC, "no space left on device")

    async with (
        asyncio.timeout(PATIENCE),
        in_background("a test of restarts", partial(repeat, timedelta(milliseconds=1), fail_once)),
    ):
        await action.ran_twice.wait()
        assert TROUBLES.failures()["a test of restarts"] == (1, True)
    TROUBLES.works("a test of restarts")


async def test_the_loop_has_ended_before_the_block_is_left() -> None:
    """What it releases at its end is released, also when the block fails."""
    released = asyncio.Event()
    begun = asyncio.Event()

    async def loop() -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            released.set()

    async def fail() -> None:
        async with in_background("test", loop):
            await begun.wait()
            raise OSError("the block fails")

    with pytest.raises(OSError, match="the block fails"):
        await fail()
    assert released.is_set()
