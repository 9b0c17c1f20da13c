"""Is a step that hangs abandoned when its pod terminates, and every other one left alone?"""

import asyncio
import threading
from datetime import timedelta

import pytest

from activities.objects.terminating_pods import PodTerminatingError, TerminatingPods

pytestmark = pytest.mark.jumping_clock

SOON = timedelta(milliseconds=20)


async def hang() -> str:
    """Never end."""
    await asyncio.Event().wait()
    return "never"


async def test_a_step_of_a_pod_that_stays_takes_its_time() -> None:
    """It may take any time, and its result is returned."""
    terminating = TerminatingPods(SOON)
    terminating.set("other", terminating=True)

    async def slow() -> str:
        await asyncio.sleep(0.1)
        return "done"

    assert await terminating.unless_terminating("uid", slow()) == "done"


async def test_a_step_that_hangs_is_given_up() -> None:
    """The pod is marked in another thread; the step is cancelled."""
    terminating = TerminatingPods(SOON)
    ended: list[str] = []

    async def step() -> str:
        try:
            return await hang()
        finally:
            ended.append("cancelled")

    waiting = asyncio.create_task(terminating.unless_terminating("uid", step()))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    thread = threading.Thread(target=terminating.set, args=("uid",), kwargs={"terminating": True})
    thread.start()
    with pytest.raises(PodTerminatingError, match=r"given up 0.02 s after the pod began to terminate"):
        await waiting
    thread.join()
    assert ended == ["cancelled"]


async def test_a_pod_that_went_before_the_step_began() -> None:
    """A new worker abandons it as well."""
    terminating = TerminatingPods(SOON)
    terminating.set("uid", terminating=True)
    with pytest.raises(PodTerminatingError):
        await terminating.unless_terminating("uid", hang())


async def test_a_step_that_works_is_let_finish() -> None:
    """What it creates can then be removed as usual."""
    terminating = TerminatingPods(timedelta(seconds=5))
    terminating.set("uid", terminating=True)
    assert await terminating.unless_terminating("uid", asyncio.sleep(0.01, "made")) == "made"


async def test_its_own_error_is_its_own() -> None:
    """It is not mistaken for a hang."""
    terminating = TerminatingPods(SOON)

    async def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await terminating.unless_terminating("uid", fails())


async def test_a_pod_that_came_back_is_not_hurried() -> None:
    """Listed again, it starts over under its UID."""
    terminating = TerminatingPods(SOON)
    terminating.set("uid", terminating=True)
    terminating.set("uid", terminating=False)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(terminating.unless_terminating("uid", hang()), timeout=0.2)


async def test_a_stop_of_the_worker_ends_the_step() -> None:
    """Nothing continues in the background."""
    terminating = TerminatingPods(SOON)
    ended = asyncio.Event()

    async def step() -> None:
        try:
            await hang()
        finally:
            ended.set()

    waiting = asyncio.create_task(terminating.unless_terminating("uid", step()))
    await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ended.is_set()
