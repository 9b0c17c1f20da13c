"""One capability for a Temporal that is no root's, so that no other process of its uid can attach to it.

A pod may name any uid, and with the host's processes it sees Temporal. The kernel lets a process attach to another one of its uid, read its
memory and enter its folders, unless the other one has a capability that it has not (`cap_ptrace_access_check`). The one that is kept
blocks a suspension of the machine, which no process of a server asks for: it gives nothing else. Where it cannot be kept, Temporal has
none.
"""

import ctypes
import struct
from typing import Final

CAP_BLOCK_SUSPEND: Final = 36  # capabilities(7)
PR_SET_KEEPCAPS: Final = 8  # prctl(2)
PR_CAP_AMBIENT: Final = 47
PR_CAP_AMBIENT_RAISE: Final = 2
_VERSION_3: Final = 0x20080522  # capset(2)
_HEADER: Final = struct.Struct("=Ii")
_HALVES: Final = struct.Struct("=6I")
"""Effective, permitted and inheritable, of the lower 32 capabilities and of the upper ones."""

_libc: Final = ctypes.CDLL(None, use_errno=True)


def keep_capabilities(*, are_kept: bool) -> None:
    """Let the permitted capabilities of a child be there when it has become another user's, until it starts its program; or not."""
    _libc.prctl(PR_SET_KEEPCAPS, ctypes.c_ulong(are_kept), 0, 0, 0)


def keep_one() -> None:
    """Keep CAP_BLOCK_SUSPEND alone over the start of a program; called between fork and exec, as the other user."""
    bit = 1 << (CAP_BLOCK_SUSPEND - 32)
    header, halves = _HEADER.pack(_VERSION_3, 0), _HALVES.pack(0, 0, 0, 0, bit, bit)
    if _libc.capset(header, halves) == 0:
        _libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, ctypes.c_ulong(CAP_BLOCK_SUSPEND), 0, 0)
