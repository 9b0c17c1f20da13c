"""The functions by which a workflow tells its worker something outside the history; a replay tells nothing.

The worker installs them (`worker/host/pod_cache.py`). They run in the thread of the workflow task, so they return at once.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from temporalio import workflow

PUBLISH: Final = "tempolet_publish_pod"
"""(PodSnapshot) -> None."""
RECEIVED: Final = "tempolet_answer_received"
"""(workflow id, run id, key) -> None. The run has the answer of this action. The next state that it keeps has it, too."""
KEEP_STATE: Final = "tempolet_keep_state"
"""(workflow id, Decided, PodStart or NodeStart) -> None. With this state another driver could go on.

Its `observed` is the run's own, and changes after the function has returned.
"""
ENDED: Final = "tempolet_run_ended"
"""(workflow id, run id, PodStart or NodeStart) -> None. The run ends by itself; it was started with this."""


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision of a run: where in its history, and what it expects of Temporal since."""

    run_id: str
    length: int
    """Events in the history."""
    wakes_at: datetime | None = None
    """When its next timer fires."""
    under_way: tuple[str, ...] = ()
    """The keys of its actions."""
    at: datetime | None = None
    """When its workflow task began."""


def extern(name: str) -> Callable[..., None] | None:
    """Return a function of the worker; None if it has not installed it, and in a replay."""
    return None if workflow.unsafe.is_replaying() else workflow.extern_functions().get(name)
