"""How long a workflow may work on one activation before the SDK interrupts it.

The SDK takes 2 s for a deadlock, and raises an exception in the thread, wherever that is. On a loaded machine, an activation with some
hundred signals takes longer. The event loop of the run is then left halfway, and the run may not leave the SDK's cache any more: no task
of its pod succeeds until the worker is restarted. The SDK has no option for that time but `debug_mode`, which activates on the worker's own
event loop.
"""

from typing import Final

from temporalio.worker import Worker

LONGEST_SECONDS: Final = 30
"""As long as the node waits for one pod's workflow before it leads the pod itself."""


def extend_activation_limit(worker: Worker) -> Worker:
    """Give a worker's workflows LONGEST_SECONDS for an activation, and return the worker."""
    hosting = worker._workflow_worker  # noqa: SLF001 - no public way, see above
    if hosting is not None:
        hosting._deadlock_timeout_seconds = LONGEST_SECONDS  # noqa: SLF001
    return worker
