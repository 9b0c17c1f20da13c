"""Does a loop continue after an unexpected error?"""

import asyncio

import pytest

from tests.patience import PATIENCE
from worker.daemon import loop_restarts as defects


async def test_a_loop_that_fails_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it returns."""
    monkeypatch.setattr(defects, "AGAIN", 0)
    begun: list[int] = []

    async def loop() -> None:
        begun.append(len(begun))
        if len(begun) < 3:
            raise KeyError("metadata")

    await asyncio.wait_for(defects.restart_on_error("a test", loop), PATIENCE)
    assert begun == [0, 1, 2]


async def test_a_loop_that_is_cancelled_ends() -> None:
    """A cancellation is not an error."""
    waiting = asyncio.create_task(defects.restart_on_error("a test", asyncio.Event().wait))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
