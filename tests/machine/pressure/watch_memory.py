"""Run in the guest, with the checkout's Python: writes down what is left of its memory, five times a second, until it is relieved.

`watch_memory.py FILE THRESHOLD SECONDS`: the threshold in bytes. `watch_memory.py` alone prints what is left now, and of it what programs can have.
"""

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, "/opt/tempolet")
from activities.machine.cgroup_hierarchies import Hierarchies
from activities.machine.node_capacity import memory_capacity
from worker.stats.cgroups.v2 import CgroupsV2


def left() -> int:
    """Return memory.available, as the node measures it."""
    found = Hierarchies.of_this_node()
    assert found.v2
    usage = CgroupsV2(found.v2).cpu_and_memory("/")
    assert usage
    return memory_capacity() - usage.working_set


def free() -> int:
    """Return what programs can have before the kernel ends one."""
    words = [line.split() for line in Path("/proc/meminfo").read_text().splitlines()]
    return next(int(one[1]) << 10 for one in words if one[0] == "MemAvailable:")


def watch(file: Path, threshold: int, seconds: float) -> None:
    """Watch, and keep the file up to date."""
    began = time.monotonic()
    said = {"crossed": 0.0, "relieved": 0.0, "least": left(), "free": free()}
    while time.monotonic() - began < seconds and not said["relieved"]:
        now = left()
        said["least"], said["free"] = min(said["least"], now), min(said["free"], free())
        if now < threshold:
            said["crossed"] = said["crossed"] or time.monotonic() - began
        elif said["crossed"]:
            said["relieved"] = time.monotonic() - began
        new = file.with_suffix(".new")
        new.write_text(json.dumps(said))
        new.replace(file)
        time.sleep(0.2)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        watch(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
    else:
        print(json.dumps({"left": left(), "free": free()}))
