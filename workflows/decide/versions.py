"""Which behaviour a run follows: a number in its start's input, so that no running pod changes under its feet.

The poller puts the number that the node is committed to into a new run's input; only the input of a continue-as-new may
raise it, to a number that the signal BehaviourCommitted has named. Workflow code asks `start.behaviour` and never `CURRENT`,
which differs between two releases that replay the same history.

A change of what workflow code does takes the next number, a line of reason here and recorded histories. A number goes with
its row, its branches and its histories, once the release before could be committed to a higher one (CONTRIBUTING.md).
"""

from collections.abc import Mapping
from typing import Final

BEHAVIOURS: Final[dict[int, str]] = {
    1: "the first: sandbox, images, init containers, containers, backoff, deletion",
    2: "directories come with the sandbox and images are looked for before any is pulled: two activities fewer a start",
    3: "one timer a wait, cancelled only when its time or its reason changes; until then one for the nearest wait, started anew at every arrival",
}
OLDEST: Final = min(BEHAVIOURS)
"""Runs below it belong to an older release; a worker that meets one tells so and leaves its pod alone."""
CURRENT: Final = max(BEHAVIOURS)

NODE_BEHAVIOURS: Final[dict[int, str]] = {
    1: "the first: images are watched, removed and prepulled",
    2: "one timer a wait, as of behaviour 3 of pods",
}
"""Those of NodeWorkflow, which count on their own."""
OLDEST_NODE: Final = min(NODE_BEHAVIOURS)
CURRENT_NODE: Final = max(NODE_BEHAVIOURS)

STARTS_LEAN: Final = 2
"""From here on no activity for directories, and none for an image that is there."""
TIMER_A_WAIT: Final = 3
"""From here on each wait of a pod has a timer of its own."""
NODE_TIMER_A_WAIT: Final = 2
"""The same for the node's workflow."""


class UnknownBehaviourError(Exception):
    """The run follows a number of another release; it fails the workflow task, which waits for a worker that knows it."""


def require_known(behaviour: int, known: Mapping[int, str] = BEHAVIOURS) -> None:
    """Refuse a run of a newer release, or of one too old; raises UnknownBehaviourError."""
    if behaviour in known:
        return
    needed = "the newer release" if behaviour > max(known) else "an older release, which raises it"
    raise UnknownBehaviourError(
        f"this run follows behaviour {behaviour}, this worker knows {min(known)} to {max(known)}: start a worker of {needed}"
    )
