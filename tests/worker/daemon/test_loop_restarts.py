"""Does a loop continue after an unexpected error, and is that told until it works again?"""

import asyncio

import pytest

from tests.patience import PATIENCE
from worker.daemon import loop_restarts
from worker.daemon.troubles import Troubles


async def test_a_loop_that_fails_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it returns; then it is in trouble no more, and its failures stay counted."""
    monkeypatch.setattr(loop_restarts, "FIRST_PAUSE", 0)
    troubles, told = Troubles(), []

    async def loop() -> None:
        told.append(troubles.lines())
        if len(told) < 3:
            raise KeyError("metadata")

    await asyncio.wait_for(loop_restarts.restart_on_error("a test", loop, troubles=troubles), PATIENCE)
    assert told == [(), ("a test: KeyError: 'metadata'",), ("a test: KeyError: 'metadata'",)]
    assert (troubles.lines(), troubles.failures()) == ((), {"a test": (2, False)})


async def test_a_loop_that_goes_on_works_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while without a failure."""
    monkeypatch.setattr(loop_restarts, "FIRST_PAUSE", 0)
    failed: list[bool] = []
    troubles, works = Troubles(), asyncio.Event()
    monkeypatch.setattr(troubles, "works", lambda _: works.set())

    async def loop() -> None:
        if not failed:
            failed.append(True)
            raise OSError("no space left on device")
        await asyncio.Event().wait()

    running = asyncio.create_task(loop_restarts.restart_on_error("a test", loop, troubles=troubles, steady=0.05))
    async with asyncio.timeout(PATIENCE):
        await works.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert failed


async def test_the_pause_grows_while_a_loop_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """So a defect costs neither the CPU nor the log."""
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 9:
            raise asyncio.CancelledError

    monkeypatch.setattr("worker.daemon.loop_restarts.asyncio.sleep", sleep)

    async def loop() -> None:
        raise RuntimeError("a defect")

    with pytest.raises(asyncio.CancelledError):
        await loop_restarts.restart_on_error("a test", loop, troubles=Troubles())
    assert all(0.7 * 2**turn < pause < 1.3 * 2**turn for turn, pause in enumerate(pauses[:6]))
    assert all(40 < pause < 80 for pause in pauses[6:])


async def test_a_loop_that_is_cancelled_ends() -> None:
    """A cancellation is not an error."""
    waiting = asyncio.create_task(loop_restarts.restart_on_error("a test", asyncio.Event().wait))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
