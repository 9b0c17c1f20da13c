"""The functions by which a workflow tells its worker something outside the history; a replay tells nothing.

The worker installs them (`worker/host/pod_cache.py`). They run in the thread of the workflow task, so they return at once.
"""

from collections.abc import Callable
from typing import Final

from temporalio import workflow

PUBLISH: Final = "tempolet_publish_pod"
"""(PodSnapshot) -> None."""
SETTLED: Final = "tempolet_action_settled"
"""(workflow id, key) -> None. The history has the answer of this action."""
KEEP_STATE: Final = "tempolet_keep_state"
"""(workflow id, run id, history length, PodStart or NodeStart) -> None. With this state another driver could go on.

Its `observed` is the run's own, and changes after the function has returned.
"""


def extern(name: str) -> Callable[..., None] | None:
    """Return a function of the worker; None if it has not installed it, and in a replay."""
    return None if workflow.unsafe.is_replaying() else workflow.extern_functions().get(name)
