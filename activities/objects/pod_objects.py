"""The pods' objects in the API, as activities need them: write the last status, and see whether the object is still there.

Implemented by worker/status/, which writes all other statuses, so the last one is never overtaken by an earlier one.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Protocol

from proto.temporal.pod import PodKey


class ObjectState(StrEnum):
    """The state of a pod's object."""

    GONE = "gone"
    """It does not exist, or another pod has its name."""
    DELETING = "deleting"
    WANTED = "wanted"
    """It exists and is not being deleted."""


class PodObjects(Protocol):
    """The objects of this node's pods in the API."""

    async def write_last(self, pod: PodKey, status: Mapping[str, Any]) -> ObjectState:
        """Write a pod's last status; raises ApiAway, ApiRefused."""

    def forget(self, pod: PodKey) -> None:
        """Drop what is stored about a pod whose object is gone."""
