"""Does a process give back what a burst of work left in its heap?"""

import subprocess
import sys

BURST = """
from worker.freed_memory import give_back_freed_memory
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
