"""Callbacks that record the duration of volume and cgroup operations, for the kubelet's metrics.

The worker sets them.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

MOUNT: Final = "volume_mount"
UNMOUNT: Final = "volume_unmount"


def _ignore(*_: object) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Timings:
    """The callbacks; called in any thread."""

    volume: Callable[[str, str, float, bool], None] = _ignore
    """Plugin, operation, seconds, failed."""
    cgroup: Callable[[str, float], None] = _ignore
    """create, update or destroy, and the seconds."""

    @contextmanager
    def of_volume(self, operation: str, plugin: str) -> Iterator[None]:
        """Time an operation on a volume; a cancelled one has failed."""
        start, failed = time.perf_counter(), True
        try:
            yield
            failed = False
        finally:
            self.volume(plugin, operation, time.perf_counter() - start, failed)
