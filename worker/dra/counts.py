"""What is counted of dynamic resource allocation; the worker's metrics satisfy it."""

from collections.abc import Mapping
from typing import Protocol


class Counts(Protocol):
    """Counts what is prepared, and the calls of drivers."""

    def operated(self, operation: str, failed: bool, seconds: float) -> None:  # noqa: FBT001 - a fact, as the others
        """Count that all claims of a pod were prepared or undone, or could not be."""
        ...

    def called(self, driver: str, method: str, code: str, seconds: float) -> None:
        """Count a call of a driver."""
        ...

    def in_use(self, counts: Mapping[str, int]) -> None:
        """Take how many claims are prepared, by driver."""
        ...


class Uncounted:
    """Counts nothing."""

    def operated(self, operation: str, failed: bool, seconds: float) -> None:  # noqa: FBT001 - as above
        """Ignore it."""

    def called(self, driver: str, method: str, code: str, seconds: float) -> None:
        """Ignore it."""

    def in_use(self, counts: Mapping[str, int]) -> None:
        """Ignore it."""
