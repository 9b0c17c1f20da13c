"""Which images a node may remove (pkg/kubelet/images/image_gc_manager.go).

Used by `workflows/decide/node/image_collection.py`, which chooses among them, and by the activity that watches the
images, so that it wakes the workflow only if there is something to choose. The ages outlive the process, unlike the kubelet's.
As with the kubelet no image is too old before the agent has run for the maximum age: who used one meanwhile is not known.
"""

from datetime import datetime
from typing import Final

from proto.temporal.node import ImagePolicy, ImageUse, NodeImage

BY_AGE: Final = "longer than imageMaximumGCAge"
"""How the reason of a removal by age ends."""


def is_removable(image: NodeImage) -> bool:
    """Report whether an image is neither in use nor pinned, whatever its age."""
    return not image.in_use and not image.pinned


def is_too_old(image: NodeImage, policy: ImagePolicy, use: ImageUse) -> bool:
    """Report whether an image has been unused for longer than imageMaximumGCAge, and the agent has run for longer (freeOldImages)."""
    maximum = policy.maximum_age
    if maximum is None or (use.agent_began is not None and use.at - use.agent_began <= maximum):
        return False
    return is_removable(image) and use.at - image.age.idle_since > maximum


def may_make_room(image: NodeImage, policy: ImagePolicy, at: datetime) -> bool:
    """Report whether an image may be removed to make room; one that was just pulled is about to be used (freeSpace)."""
    return is_removable(image) and at - image.age.detected_at >= policy.minimum_age


def is_too_full(use: ImageUse, policy: ImagePolicy) -> bool:
    """Report whether imageGCHighThresholdPercent is exceeded; 100 without a maximum age turns it off (StartGarbageCollection)."""
    off = policy.high_threshold_percent == 100 and not policy.maximum_age
    return not off and use.disk.used_percent >= policy.high_threshold_percent


def needs_attention(use: ImageUse, policy: ImagePolicy, *, too_full_known: bool) -> bool:
    """Report whether images can be removed, or the disk has become too full with nothing to remove, or no longer is."""
    if any(is_too_old(image, policy, use) for image in use.images):
        return True
    if not is_too_full(use, policy):
        return too_full_known
    return not too_full_known or any(may_make_room(image, policy, use.at) for image in use.images)
