"""Whoever supervises the processes of a node: systemd (`units.py`), or `tempolet up` (`up_processes.py`)."""

from collections.abc import Sequence
from typing import Final, Protocol

from worker.upgrades.health import Process

ORDER: Final = ("worker", "poller", "node")
"""The worker first: the poller starts new pods with what the worker knows."""


class CannotUpgrade(Exception):
    """Nothing was changed; the message says why and what to do."""


class Services(Protocol):
    """The processes of one node, and the release that the next start of each is of."""

    @property
    def roles(self) -> Sequence[str]:
        """Name the processes that the node has, in ORDER."""
        ...

    @property
    def before(self) -> str:
        """Say where the release before is."""
        ...

    def use_new(self) -> None:
        """Let the next starts be of this release; raises OSError."""
        ...

    def use_before(self) -> None:
        """Let the next starts be of the release before; raises OSError."""
        ...

    def restart(self, role: str) -> None:
        """Stop a process and start it anew, without waiting for its readiness."""
        ...

    def look(self, role: str) -> Process:
        """Return what is known of a process."""
        ...
