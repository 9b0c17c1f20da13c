"""How much of what its containers said at their end a pod's status shows: 12 KiB in all, an equal share for each container.

Asked by `container_status`; what one container may say is bounded where it is read (activities/runtime/termination_messages.py).
The whole message stays in `Observed`: a share depends on how many containers the pod has
(pkg/kubelet/status/status_manager.go normalizeStatus).
"""

from typing import Final

from workflows.decide.situation import Situation

POD_BYTES: Final = 12 * 1024


def shown(situation: Situation, message: str) -> str:
    """Cut a message to its container's share, counted in bytes; a character that would be cut in two is left out."""
    share = POD_BYTES // max(1, len(situation.all_containers))
    said = message.encode()
    return message if len(said) <= share else said[:share].decode(errors="ignore")
