"""Does a process return the memory of a burst of work to the kernel?"""

import asyncio
import gc
import subprocess
import sys
from datetime import timedelta

import pytest

from tests.patience import PATIENCE
from worker.daemon import freed_memory

BURST = """
from worker.daemon.freed_memory import give_back_freed_memory
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 >> 20
burst = [bytes(1000) for _ in range(60_000)]
stays = bytes(1000)  # lies above, so the heap cannot shrink by itself
del burst
before = resident()
give_back_freed_memory()
print(before - resident())
"""


def test_freed_heap_goes_back_to_the_kernel() -> None:
    """Sixty megabytes were used for a moment; at least half of it is returned."""
    answer = subprocess.run([sys.executable, "-c", BURST], check=True, capture_output=True, text=True)
    assert int(answer.stdout) > 30


async def test_a_process_gives_back_again_and_again_as_long_as_it_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bursts come at any time; at the end nothing is left running."""
    given_back: asyncio.Queue[None] = asyncio.Queue()
    monkeypatch.setattr(freed_memory, "give_back_freed_memory", lambda: given_back.put_nowait(None))
    before = asyncio.all_tasks()
    async with asyncio.timeout(PATIENCE), freed_memory.giving_back_freed_memory(timedelta(milliseconds=1)):
        await given_back.get()
        await given_back.get()
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


async def test_what_is_loaded_is_not_collected() -> None:
    """Each full collection would visit it; what comes later is collected as always."""
    loaded: list[list[None]] = [[]]
    async with freed_memory.giving_back_freed_memory(timedelta(hours=1)):
        later: list[list[None]] = [[]]
        collected = {id(one) for one in gc.get_objects()}
    assert id(loaded) not in collected
    assert id(later) in collected
