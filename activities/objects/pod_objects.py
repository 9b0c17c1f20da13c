"""What the activities know of pods' objects in the API: how one is told the last word, and whether it is still there.

Implemented by the worker's status keeper (worker/status/), which writes all other statuses, too: so the last one is never overtaken
by one before it.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Protocol

from proto.temporal.pod import PodKey


class ObjectState(StrEnum):
    """How the API has a pod."""

    GONE = "gone"
    """There is none, or another one of that name."""
    DELETING = "deleting"
    WANTED = "wanted"
    """Nobody has deleted it."""


class PodObjects(Protocol):
    """The pods of this node in the API."""

    async def write_last(self, pod: PodKey, status: Mapping[str, Any]) -> ObjectState:
        """Write the status that a pod ends with; raises ApiAway, ApiRefused."""

    def forget(self, pod: PodKey) -> None:
        """Know that a pod's object is gone."""
