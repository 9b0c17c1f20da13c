"""Is memory that a burst took given back, though a later allocation keeps the heap's end?"""

import subprocess
import sys

PROGRAM = """
import asyncio, ctypes, datetime
from worker.memory import giving_memory_back

def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

async def main() -> None:
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
    blocks = [libc.malloc(8192) for _ in range(4000)]
    for block in blocks:
        ctypes.memset(block, 1, 8192)
    end = libc.malloc(8192)  # keeps glibc from giving back what lies before it
    for block in blocks:
        libc.free(block)
    full = resident()
    async with giving_memory_back(datetime.timedelta(milliseconds=10)):
        async with asyncio.timeout(20):
            while resident() > full - 20_000_000:
                await asyncio.sleep(0.01)
    libc.free(ctypes.c_void_p(end))

asyncio.run(main())
"""


def test_free_pages_before_a_used_one_go_back() -> None:
    """32 MB are taken and freed; without the trim they stay, and the program times out."""
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=60)
