"""Has the kernel's OOM killer take a pod's process before one of the node's own, as units of systemd have it by `OOMScoreAdjust`.

Used where `tempolet up` starts plain processes. Only a process with CAP_SYS_RESOURCE may lower its score; without it they keep the operator's.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

SCORE: Final = -999
"""A kubelet's own (pkg/kubelet/qos/policy.go KubeletOOMScoreAdj)."""
_OWN: Final = Path("/proc/self/oom_score_adj")


@contextlib.contextmanager
def spared_by_the_oom_killer(own: Path = _OWN) -> Iterator[None]:
    """Give what is started in this block the score, if that is allowed; this process has its own again after it."""
    before = own.read_text()
    try:
        own.write_text(str(SCORE))
    except PermissionError:
        yield
        return
    try:
        yield
    finally:
        own.write_text(before)
