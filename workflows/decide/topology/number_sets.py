"""Sets of CPUs and of NUMA nodes as the runtime tells them: whatever stands there, reading it takes little time and memory."""

import re
from typing import Final

LONGEST: Final = 16_384
"""Characters: a set of 4,096 CPUs that are all apart has no more."""
_RANGE: Final = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", re.ASCII)


def read_set(text: str, every: frozenset[int]) -> frozenset[int] | None:
    """Read a set whose numbers are all in `every`; None for anything else."""
    if len(text) > LONGEST:
        return None
    found: set[int] = set()
    highest = max(every, default=-1)
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, -1)
        if not first <= last <= highest:
            return None
        found.update(range(first, last + 1))
    return frozenset(found) if found <= every else None
