"""What a workflow remembers of messages that it dropped; a part of `pod.Observed` and `node.NodeObserved`."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

REFUSED: Final = "binary/refused"
"""The encoding of a payload that was not encrypted for this workflow: the codec leaves the reason in its place."""

MARK: Final = "refused"
"""The same in a decrypted history that a person reads: this key in the metadata of a payload with its own encoding."""


@dataclass(frozen=True, slots=True)
class DroppedSignals:
    """The signals that a workflow dropped because they were malformed or not encrypted for it."""

    count: int
    name: str
    """The name of the last one, shortened: a stranger may have chosen it."""
    reason: str
    """Why the last one was dropped."""
    at: datetime
