"""What is counted of device plugins; the worker's metrics satisfy it."""

from typing import Protocol


class Counts(Protocol):
    """Counts what plugins do."""

    def registered(self, resource: str) -> None:
        """Count a registration."""
        ...

    def allocated(self, resource: str, seconds: float) -> None:
        """Count how long a plugin took for Allocate, whatever came of it."""
        ...


class Uncounted:
    """Counts nothing."""

    def registered(self, resource: str) -> None:
        """Ignore it."""

    def allocated(self, resource: str, seconds: float) -> None:
        """Ignore it."""
