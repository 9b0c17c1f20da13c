"""Which behaviour a run follows: a number set at its start, so that running pods never change under their feet.

The poller puts `CURRENT` into the start input and continue-as-new may raise it, nowhere else (design §4.13). A change of
what workflow code does takes the next number, a line of reason here and a recorded history in tests/replay/histories/.
"""

from collections.abc import Mapping
from typing import Final

BEHAVIOURS: Final[dict[int, str]] = {
    1: "the first: sandbox, images, init containers, containers, backoff, deletion",
    2: "directories come with the sandbox and images are looked for before any is pulled: two activities fewer a start",
}
CURRENT: Final = max(BEHAVIOURS)

NODE_BEHAVIOURS: Final[dict[int, str]] = {1: "the first: images are watched, removed and prepulled"}
"""Those of NodeWorkflow, which count on their own."""
CURRENT_NODE: Final = max(NODE_BEHAVIOURS)

STARTS_LEAN: Final = 2
"""From here on no activity for directories, and none for an image that is there."""


class UnknownBehaviourError(Exception):
    """The run was started by a newer release; it fails the workflow task, which waits for a worker that knows it."""


def require_known(behaviour: int, known: Mapping[int, str] = BEHAVIOURS) -> None:
    """Refuse a run of a newer release; raises UnknownBehaviourError."""
    if behaviour not in known:
        raise UnknownBehaviourError(
            f"this run follows behaviour {behaviour}, this worker knows 1 to {max(known)}: start a worker of the newer release"
        )
