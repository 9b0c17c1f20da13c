"""Keeps the memory of a service to itself: it holds keys, tokens and values of Secrets.

Called by `tempolet worker`, `poller` and `node` before anything is read. The kernel then writes no core dump of the process,
not even to a program of core_pattern, and lets only a process with CAP_SYS_PTRACE read its memory and environment: not
root in a container that sees the host's processes. Programs that it starts are dumpable again.
"""

import ctypes
import os
import resource
from typing import Final

_PR_SET_DUMPABLE: Final = 4
"""prctl(2)."""


def keep_memory_private() -> None:
    """Make this process not dumpable; raises OSError."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
