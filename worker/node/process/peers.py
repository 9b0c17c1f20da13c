"""Whether the node's other two processes run: no pod starts without a worker, and none is seen without a poller.

Used for the Ready condition and for healthz. When a kubelet dies its lease expires and the node becomes NotReady; this process
keeps the lease without the other two, so it must report them. They hold their locks from the start, also while they wait for
Temporal. A restart or an upgrade of all three takes less than the grace period.

healthz also waits until both have come up once, as nobody answers for a kubelet before it has begun: what asks then may look for the
pods' cgroups, which the worker makes first. It makes them without Temporal and the API server, so healthz does not wait for these.
"""

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Final

from worker.daemon.node_lock import LOCK_DIRECTORY, lock_holder, lock_path
from worker.daemon.troubles import TROUBLES
from worker.telemetry.local_socket import failing_loops
from worker.telemetry.workflow_engine import WorkflowEngine, workflow_engine

WORKER: Final = "worker"
ROLES: Final = (WORKER, "poller")
GRACE_SECONDS: Final = 40.0
"""As long as a lease lasts by default."""
ANSWER_WITHIN: Final = timedelta(seconds=1)


class PeerProcesses:
    """The node's other processes."""

    def __init__(
        self, root_dir: Path, clock: Callable[[], float] = time.monotonic, *, tiers: Callable[[], bool] = lambda: True
    ) -> None:
        """`tiers` reports whether the worker has made the pods' cgroups."""
        self._root_dir, self._clock, self._tiers = root_dir, clock, tiers
        self._unstarted = set(ROLES)
        self._state_dir = root_dir / LOCK_DIRECTORY
        self._seen = dict.fromkeys(ROLES, clock())
        self._engine: WorkflowEngine | None = None
        self._engine_told = clock()

    def troubles(self) -> tuple[str, ...]:
        """Return a message for each process that has not been running for the grace period."""
        now = self._look()
        return tuple(
            f"tempolet {role} is not running" for role, seen in self._seen.items() if now - seen >= GRACE_SECONDS
        )

    def unstarted(self) -> tuple[str, ...]:
        """Return a message for each process that has not come up since this one began; one that has may end and start again."""
        self._look()
        return tuple(f"tempolet {role} has not started yet" for role in ROLES if role in self._unstarted)

    async def failing_loops(self) -> tuple[str, ...]:
        """Return a line for each loop that fails now, in this process and the others; one that does not answer has none."""
        of_others = await failing_loops(self._state_dir, ROLES, ANSWER_WITHIN)
        return (*(f"node: {line}" for line in TROUBLES.lines()), *of_others)

    async def workflow_engine(self) -> WorkflowEngine | None:
        """Return what the worker told of Temporal last; None once it has told nothing for the grace period."""
        now, told = self._clock(), await workflow_engine(self._state_dir, ANSWER_WITHIN)
        if told is not None or now - self._engine_told >= GRACE_SECONDS:
            self._engine = told
        if told is not None:
            self._engine_told = now
        return self._engine

    def _look(self) -> float:
        """Note which processes run, and since when the worker has made its cgroups; returns the time."""
        now = self._clock()
        for role in ROLES:
            if lock_holder(lock_path(self._root_dir, role)) is not None:
                self._seen[role] = now
                if role in self._unstarted and (role != WORKER or self._tiers()):
                    self._unstarted.discard(role)
        return now
