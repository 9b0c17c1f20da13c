"""Which events the node has about the collection of its images (image_gc_manager.go GarbageCollect, kubelet.go StartGarbageCollection).

A round is what a kubelet does in one go every five minutes: look, and remove until there is room. Here it is a look, the
removals that the node's workflow chose by it, and the next look, which judges the round. The second round that fails, one
after the other, is an ImageGCFailed.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from proto.image_collection import CollectionStep, ImageGone, ImagesSeen, ImageStays, ImagesUnseen
from proto.kubernetes.go_duration import format_duration
from proto.kubernetes.image_age import BY_AGE, is_too_full
from proto.temporal.node import ImagePolicy, ImageUse
from workflows.decide.node.image_collection import choose, room_to_make, size_in_words

IMAGE_GC_FAILED: Final = "ImageGCFailed"
FREE_DISK_SPACE_FAILED: Final = "FreeDiskSpaceFailed"
INVALID_DISK_CAPACITY: Final = "InvalidDiskCapacity"


@dataclass(frozen=True, slots=True)
class Collection:
    """What is known of the rounds."""

    began: ImagesSeen | None = None
    """The look by which removals were chosen; None: none were since the last judged round."""
    freed: int = 0
    errors: tuple[str, ...] = ()
    old_errors: tuple[str, ...] = ()
    """The same of images that were too old."""
    judged_at: datetime | None = None
    failed: bool = False
    """The last round has failed."""


@dataclass(frozen=True, slots=True)
class CollectionEvent:
    """A Warning about the node."""

    reason: str
    message: str


def fold_step(known: Collection, step: CollectionStep) -> tuple[Collection, tuple[CollectionEvent, ...]]:
    """Return what is known after a step, and the events that it brings."""
    match step:
        case ImageGone(image_id):
            images = known.began.use.images if known.began else ()
            size = sum(one.size_bytes for one in images if one.image_id == image_id)
            return replace(known, freed=known.freed + size), ()
        case ImageStays(removal, error) if removal.reason.endswith(BY_AGE):
            return replace(known, old_errors=(*known.old_errors, error)), ()
        case ImageStays(_, error):
            return replace(known, errors=(*known.errors, error)), ()
        case ImagesUnseen(at, policy, error):
            return _judged(known, at, policy, error) if _is_on(policy) else (known, ())
        case ImagesSeen(use, policy):
            return _seen(known, use, policy)


def _seen(known: Collection, use: ImageUse, policy: ImagePolicy) -> tuple[Collection, tuple[CollectionEvent, ...]]:
    if known.old_errors:
        age = format_duration(policy.maximum_age) if policy.maximum_age else "0s"
        error = f"wanted to free images older than {age}, encountered errors in image deletion: {_together(known.old_errors)}"
        return _judged(known, use.at, policy, error)
    if known.errors and known.began:
        wanted = room_to_make(known.began.use, policy)
        error = f"wanted to free {wanted} bytes, but freed {known.freed} bytes space with errors in image deletion: {_together(known.errors)}"
        return _judged(known, use.at, policy, error)
    if use.disk.capacity_bytes == 0 and _is_on(policy):
        error = "invalid capacity 0 on image filesystem"
        return _judged(known, use.at, policy, error, reason=INVALID_DISK_CAPACITY)
    if choose(use, policy):
        return (known if known.began else replace(known, began=ImagesSeen(use, policy))), ()
    if not is_too_full(use, policy):
        return _judged(known, use.at, policy, None)
    before = known.began.use if known.began else use
    error = (
        f"Insufficient free disk space on the node's image filesystem ({before.disk.used_percent}% of "
        f"{size_in_words(before.disk.capacity_bytes)} used). Failed to free sufficient space by deleting unused images "
        f"(freed {known.freed} bytes). Investigate disk usage, as it could be used by active images, logs, volumes, or "
        "other data."
    )
    return _judged(known, use.at, policy, error, reason=FREE_DISK_SPACE_FAILED)


def _judged(
    known: Collection, at: datetime, policy: ImagePolicy, error: str | None, *, reason: str = ""
) -> tuple[Collection, tuple[CollectionEvent, ...]]:
    """End a round; a look that follows sooner than the next one is due, with nothing done meanwhile, is none."""
    failed = error is not None
    idle = known.began is None and not known.errors and not known.old_errors
    if idle and known.judged_at and at - known.judged_at < policy.look_every and failed == known.failed:
        return known, ()
    ended = Collection(judged_at=at, failed=failed)
    if error is None:
        return ended, ()
    reasons = (reason, IMAGE_GC_FAILED if known.failed else "")
    return ended, tuple(CollectionEvent(one, error) for one in reasons if one)


def _is_on(policy: ImagePolicy) -> bool:
    return policy.high_threshold_percent != 100 or bool(policy.maximum_age)


def _together(errors: tuple[str, ...]) -> str:
    """Write several errors as apimachinery's NewAggregate does: once each."""
    found = tuple(dict.fromkeys(errors))
    return found[0] if len(found) == 1 else f"[{', '.join(found)}]"
