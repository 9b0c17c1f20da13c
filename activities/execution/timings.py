"""Callbacks that record how long operations on volumes, cgroups and sandboxes took, which images went, and what was found about volumes' labels, for the kubelet's metrics.

The worker sets them.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

MOUNT: Final = "volume_mount"
UNMOUNT: Final = "volume_unmount"
_OF_DEVICES: Final = {MOUNT: "map_volume", UNMOUNT: "unmap_volume"}
"""What the kubelet calls an operation on a block device."""


def _ignore(*_: object) -> None:
    pass


@dataclass(slots=True)
class TimedVolume:
    """The volume of an operation that is timed, as far as it is known: a claim's is found meanwhile."""

    plugin: str = ""
    """As in the kubelet's labels; empty: not known, and nothing is counted, as by a kubelet that has not begun then."""
    is_device: bool = False


@dataclass(frozen=True, slots=True)
class Timings:
    """The callbacks; called in any thread."""

    volume: Callable[[str, str, float, bool], None] = _ignore
    """Plugin, operation, seconds, failed."""
    csi: Callable[[str, str, str, float], None] = _ignore
    """Driver, method, code, seconds."""
    cgroup: Callable[[str, float], None] = _ignore
    """create, update or destroy, and the seconds."""
    sandbox: Callable[[str, float, bool], None] = _ignore
    """The runtime's handler, the seconds that RunPodSandbox took, failed."""
    image_removed: Callable[[str], None] = _ignore
    """`space` or `age`."""
    labelled: Callable[[str, str, str, bool], None] = _ignore
    """What was found about the SELinux label of a volume, plugin, access mode, whether it is an error."""

    hook_fell_back: Callable[[], None] = _ignore
    """A hook's HTTPS request got an answer in plain HTTP, and was repeated in it."""
    sleep_ended_early: Callable[[], None] = _ignore
    """A hook that sleeps was ended before its time."""

    @contextmanager
    def of_volume(self, operation: str, plugin: str) -> Iterator[TimedVolume]:
        """Time an operation on a volume; a cancelled one has failed. The block may say more of the volume."""
        start, failed, volume = time.perf_counter(), True, TimedVolume(plugin)
        try:
            yield volume
            failed = False
        finally:
            if volume.plugin:
                named = _OF_DEVICES.get(operation, operation) if volume.is_device else operation
                self.volume(volume.plugin, named, time.perf_counter() - start, failed)

    @contextmanager
    def of_sandbox(self, handler: str) -> Iterator[None]:
        """Time the runtime's RunPodSandbox; a cancelled one has failed."""
        start, failed = time.perf_counter(), True
        try:
            yield
            failed = False
        finally:
            self.sandbox(handler, time.perf_counter() - start, failed)
