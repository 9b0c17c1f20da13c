"""Whether the other two processes of this node run: without a worker no pod starts, without a poller none is heard of.

Asked for the Ready condition and for healthz. A kubelet that is gone stops its lease, and its node is NotReady for that; this process
goes on when they are gone, so it must say so itself. They hold their locks from their first moment on, also while they wait for
Temporal; a restart, or an upgrade of all three, takes less than what is overlooked here.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from worker.daemon.node_lock import lock_holder, lock_path

ROLES: Final = ("worker", "poller")
GRACE_SECONDS: Final = 40.0
"""Seconds; as long as a lease is good for, by default."""


class PeerProcesses:
    """The node's other processes."""

    def __init__(self, root_dir: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._root_dir, self._clock = root_dir, clock
        self._seen = dict.fromkeys(ROLES, clock())

    def troubles(self) -> tuple[str, ...]:
        """Name those that have not been running for a while."""
        now = self._clock()
        for role in ROLES:
            if lock_holder(lock_path(self._root_dir, role)) is not None:
                self._seen[role] = now
        return tuple(
            f"tempolet {role} is not running" for role, seen in self._seen.items() if now - seen >= GRACE_SECONDS
        )
