"""Limits termination messages in a status: 12 KiB in all, an equal share for each container.

One message is limited where it is read (activities/runtime/termination_messages.py). `Observed` keeps the whole
message, because a share depends on how many containers the pod has (pkg/kubelet/status/status_manager.go
normalizeStatus).
"""

from typing import Final

from workflows.decide.situation import Situation

POD_BYTES: Final = 12 * 1024


def shown(situation: Situation, message: str) -> str:
    """Cut a message to its container's share in bytes, at a character boundary."""
    share = POD_BYTES // max(1, len(situation.all_containers))
    said = message.encode()
    return message if len(said) <= share else said[:share].decode(errors="ignore")
