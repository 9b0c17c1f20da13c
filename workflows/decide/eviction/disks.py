"""What the file systems' layout changes: thresholds of containerfs, what is reclaimed, which files count.

There are three layouts: all on one device; images and writable layers on one of their own; images on one of their own,
writable layers on nodefs. The tables are buildSignalToNodeReclaimFuncs and buildSignalToRankFunc of
pkg/kubelet/eviction/helpers.go, the thresholds its UpdateContainerFsThresholds.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Final

from proto.temporal.eviction.thresholds import Disks, Signal, Threshold
from workflows.decide.eviction.signals import DISK_PRESSURE, SIGNALS


class Reclaim(StrEnum):
    """What can be removed before a pod is evicted."""

    DEAD_CONTAINERS = "delete all unused containers"
    UNUSED_IMAGES = "delete unused images"


class Files(StrEnum):
    """Files of a pod."""

    ROOT = "writable layers"
    LOGS = "logs"
    VOLUMES = "volumes"


_NODE: Final = frozenset({Signal.NODE_FS, Signal.NODE_FS_INODES})
_IMAGE: Final = frozenset({Signal.IMAGE_FS, Signal.IMAGE_FS_INODES})
_CONTAINER: Final = frozenset({Signal.CONTAINER_FS, Signal.CONTAINER_FS_INODES})
_ALL: Final = frozenset(Files)
_BOTH: Final = (Reclaim.DEAD_CONTAINERS, Reclaim.UNUSED_IMAGES)
_CONTAINER_OF: Final[Mapping[Signal, Signal]] = {
    Signal.NODE_FS: Signal.CONTAINER_FS,
    Signal.NODE_FS_INODES: Signal.CONTAINER_FS_INODES,
    Signal.IMAGE_FS: Signal.CONTAINER_FS,
    Signal.IMAGE_FS_INODES: Signal.CONTAINER_FS_INODES,
}


def reclaims(signal: Signal, disks: Disks) -> tuple[Reclaim, ...]:
    """Return what is removed first, in this order; nothing for memory and process ids."""
    if SIGNALS[signal].condition != DISK_PRESSURE:
        return ()
    if not disks.image_fs:
        return _BOTH
    if disks.container_fs:
        return (Reclaim.UNUSED_IMAGES,) if signal in _IMAGE else (Reclaim.DEAD_CONTAINERS,)
    return () if signal in _NODE else _BOTH


def files_counted(signal: Signal, disks: Disks) -> frozenset[Files]:
    """Return which of a pod's files fill the file system of a signal."""
    if not disks.image_fs:
        return _ALL
    if disks.container_fs:
        return frozenset() if signal in _IMAGE else _ALL
    return frozenset({Files.LOGS, Files.VOLUMES}) if signal in _NODE else frozenset({Files.ROOT})


def with_container_fs(thresholds: Iterable[Threshold], disks: Disks) -> tuple[Threshold, ...]:
    """Give containerfs the thresholds of the file system that it lies on, in place of its own.

    The kubelet's first round still has the configured ones. These are met together with those they are copied from.
    """
    every = tuple(thresholds)
    if disks.container_fs and not disks.image_fs:
        return every  # no such layout: the kubelet leaves the configured ones
    same = _IMAGE if disks.image_fs and not disks.container_fs else _NODE
    # the kubelet replaces one hard and one soft threshold; a soft one without a grace period is a second hard one
    replaced = {(one.signal, one.is_hard): place for place, one in enumerate(every) if one.signal in _CONTAINER}
    own = [one for place, one in enumerate(every) if place not in replaced.values()]
    copied = {(one.signal, one.is_hard): one for one in own if one.signal in same}
    return (*own, *(replace(one, signal=_CONTAINER_OF[one.signal]) for one in copied.values()))
