"""Where activities say how long a volume or a pod's cgroup took, for the kubelet's metrics of that name; nobody listens unless the worker does."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

MOUNT: Final = "volume_mount"
UNMOUNT: Final = "volume_unmount"


def _unheard(*_: object) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Timings:
    """Who listens; called in any thread."""

    volume: Callable[[str, str, float, bool], None] = _unheard
    """Plugin, operation, seconds, failed."""
    cgroup: Callable[[str, float], None] = _unheard
    """create, update or destroy, and the seconds."""

    @contextmanager
    def of_volume(self, operation: str, plugin: str) -> Iterator[None]:
        """Time what is done with a volume; one that is given up has failed."""
        start, failed = time.perf_counter(), True
        try:
            yield
            failed = False
        finally:
            self.volume(plugin, operation, time.perf_counter() - start, failed)
