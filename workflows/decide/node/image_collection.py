"""Image garbage collection: which images to remove, and in which order (image_gc_manager.go GarbageCollect).

First those that have been unused for longer than the maximum age. If the disk is too full, then those unused for
longest, until usage is below the low threshold. Images that are in use, pinned or just pulled stay.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

from proto.kubernetes.image_age import BY_AGE, is_too_full, is_too_old, may_make_room
from proto.temporal.node import ImagePolicy, ImageUse, NodeImage, Removal

_NEVER: Final = datetime.min.replace(tzinfo=UTC)
_UNITS: Final = ("B", "KiB", "MiB", "GiB")


def choose(use: ImageUse, policy: ImagePolicy) -> tuple[Removal, ...]:
    """Choose the images to remove now; after removals by age, disk usage is measured again."""
    in_order = sorted(use.images, key=_last_used)
    if old := [one for one in in_order if is_too_old(one, policy, use)]:
        return tuple(_removal(one, f"{_idle(one, use.at)}, {BY_AGE}") for one in old)
    if not is_too_full(use, policy):
        return ()
    reason = f"the disk is {use.disk.used_percent} % full, and from {policy.high_threshold_percent} % on room is made"
    left, chosen = room_to_make(use, policy), []
    for one in in_order:
        if left <= 0:
            break
        if may_make_room(one, policy, use.at):
            chosen.append(_removal(one, f"{reason}; {_idle(one, use.at)}"))
            left -= one.size_bytes
    return tuple(chosen)


def choose_unused(use: ImageUse, policy: ImagePolicy) -> tuple[Removal, ...]:
    """Choose every image that may make room, for a node under pressure (DeleteUnusedImages)."""
    in_order = sorted(use.images, key=_last_used)
    reason = "the node is under disk pressure"
    return tuple(
        _removal(one, f"{reason}; {_idle(one, use.at)}") for one in in_order if may_make_room(one, policy, use.at)
    )


def room_to_make(use: ImageUse, policy: ImagePolicy) -> int:
    """Return how many bytes must be freed to reach the low threshold."""
    wanted = use.disk.capacity_bytes * (100 - policy.low_threshold_percent) // 100
    return wanted - min(use.disk.available_bytes, use.disk.capacity_bytes)


def cannot_make_room(use: ImageUse, policy: ImagePolicy) -> str:
    """Explain why the disk stays too full (FreeDiskSpaceFailed); empty if it is not, or if an image can be removed."""
    if not is_too_full(use, policy) or choose(use, policy):
        return ""
    in_use = sum(1 for one in use.images if one.in_use or one.pinned)
    young = len(use.images) - in_use
    return (
        f"Insufficient free disk space on the node's image filesystem ({use.disk.used_percent}% of "
        f"{size_in_words(use.disk.capacity_bytes)} used), and no image can go: {in_use} in use or pinned, {young} known for "
        f"less than {policy.minimum_age.total_seconds():g} s. Look for what else fills it: logs, volumes, other data"
    )


def size_in_words(size: float) -> str:
    """Write a size: `3.4 GiB`."""
    for unit in _UNITS:
        if size < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def _last_used(image: NodeImage) -> tuple[datetime, datetime]:
    """The order of byLastUsedAndDetected: images never seen in use come first."""
    return image.age.used_at or _NEVER, image.age.detected_at


def _removal(image: NodeImage, reason: str) -> Removal:
    return Removal(image.image_id, image.name, image.size_bytes, reason)


def _idle(image: NodeImage, at: datetime) -> str:
    """Say since when an image is unused."""
    if image.age.used_at is None:
        return f"no container has used it in the {_span(at - image.age.detected_at)} that it is known"
    return f"unused for {_span(at - image.age.used_at)}"


def _span(time: timedelta) -> str:
    seconds = int(time.total_seconds())
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"
