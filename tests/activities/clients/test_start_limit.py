"""Does the start limit hold back starts, and only as long as it should?"""

import asyncio
from datetime import timedelta

import pytest

from activities.clients.start_limit import StartLimit, StartPriority
from activities.execution.pod_locks import PodLocks
from tests.patience import PATIENCE

pytestmark = pytest.mark.jumping_clock


async def hold(
    limit: StartLimit,
    begun: list[int],
    number: int,
    until: asyncio.Event,
    turn: StartPriority = StartPriority.START_CONTAINER,
) -> None:
    """Hold a permit until the event is set."""
    async with limit.permit(turn):
        begun.append(number)
        await until.wait()


async def test_so_many_at_once_in_order_of_asking() -> None:
    """The end of a call lets the next one start."""
    limit, ends = StartLimit(2), [asyncio.Event() for _ in range(4)]
    begun: list[int] = []
    tasks = [asyncio.create_task(hold(limit, begun, number, end)) for number, end in enumerate(ends)]
    await asyncio.sleep(0.01)
    assert begun == [0, 1]
    ends[1].set()
    await asyncio.sleep(0.01)
    assert begun == [0, 1, 2]
    for end in ends:
        end.set()
    await asyncio.gather(*tasks)
    assert begun == [0, 1, 2, 3]


async def test_what_is_furthest_goes_first() -> None:
    """A pod with a sandbox is finished before another one starts; within a turn, first come, first served."""
    limit, end = StartLimit(1), asyncio.Event()
    begun: list[int] = []
    asked = [
        StartPriority.RUN_POD_SANDBOX,
        StartPriority.RUN_POD_SANDBOX,
        StartPriority.CREATE_CONTAINER,
        StartPriority.START_CONTAINER,
        StartPriority.START_CONTAINER,
    ]
    tasks = [asyncio.create_task(hold(limit, begun, number, end, turn)) for number, turn in enumerate(asked)]
    await asyncio.sleep(0.01)
    end.set()
    await asyncio.gather(*tasks)
    assert begun == [0, 3, 4, 2, 1]


async def test_a_permit_that_meets_a_cancel_is_passed_on() -> None:
    """If the waiter is cancelled just as it gets the permit, the next one gets it."""
    limit, end = StartLimit(1), asyncio.Event()
    begun: list[int] = []
    async with limit.permit(StartPriority.START_CONTAINER):
        tasks = [asyncio.create_task(hold(limit, begun, number, end)) for number in (1, 2)]
        await asyncio.sleep(0.01)
    tasks[0].cancel()
    end.set()
    await asyncio.wait_for(tasks[1], PATIENCE)
    assert begun == [2]


async def test_a_call_that_hangs_gives_its_permit_back_once() -> None:
    """It continues; when it ends, no second permit appears."""
    limit, hanging, end = StartLimit(1, timedelta(milliseconds=100)), asyncio.Event(), asyncio.Event()
    begun: list[int] = []
    first = asyncio.create_task(hold(limit, begun, 0, hanging))
    second = asyncio.create_task(hold(limit, begun, 1, end))
    end.set()
    await asyncio.wait_for(second, PATIENCE)
    assert begun == [0, 1]
    hanging.set()
    await first
    never = asyncio.Event()
    tasks = [asyncio.create_task(hold(limit, begun, number, never)) for number in (2, 3)]
    await asyncio.sleep(0.005)
    assert begun == [0, 1, 2]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_cancelled_wait_leaves_the_permits_whole() -> None:
    """Whether the cancelled call held a permit or waited for one."""
    limit, never = StartLimit(1), asyncio.Event()
    begun: list[int] = []
    tasks = [asyncio.create_task(hold(limit, begun, number, never)) for number in (0, 1)]
    await asyncio.sleep(0.01)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    async with asyncio.timeout(1), limit.permit(StartPriority.START_CONTAINER):
        assert begun == [0]


def test_a_limit_that_lets_nothing_through_is_refused() -> None:
    """It would stop the node silently."""
    with pytest.raises(ValueError, match="at least one"):
        StartLimit(0)


async def test_locks_are_held_by_one_and_forgotten() -> None:
    """One holder for each key; other keys are free; unused locks are dropped."""
    locks = PodLocks()
    order: list[str] = []

    async def doer(key: str, name: str) -> None:
        async with locks.hold(key):
            order.append(f"{name} in")
            await asyncio.sleep(0.01)
            order.append(f"{name} out")

    await asyncio.gather(doer("a", "1"), doer("a", "2"), doer("b", "3"))
    assert order[:2] == ["1 in", "3 in"]
    assert [word for word in order if word[0] != "3"] == ["1 in", "1 out", "2 in", "2 out"]
    assert len(locks) == 0


async def test_a_cancelled_wait_for_a_lock_leaves_it_to_the_others() -> None:
    """The next waiter gets it."""
    locks = PodLocks()
    async with locks.hold("a"):
        waiting = asyncio.create_task(_take(locks))
        await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        behind = asyncio.create_task(_take(locks))
        await asyncio.sleep(0.01)
        assert not behind.done()
    await asyncio.wait_for(behind, PATIENCE)
    assert len(locks) == 0


async def _take(locks: PodLocks) -> None:
    async with locks.hold("a"):
        pass
