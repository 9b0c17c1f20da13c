"""Which images a node may remove (pkg/kubelet/images/image_gc_manager.go).

Asked by `workflows/decide/node/image_collection.py`, which chooses among them, and by the activity that watches the images, so
that it wakes the workflow only when there is something to choose. One thing differs from the kubelet: the ages outlive the
process, so nothing has to wait until the maximum age has passed since its start.
"""

from datetime import datetime

from proto.temporal.node import ImagePolicy, ImageUse, NodeImage


def may_go(image: NodeImage) -> bool:
    """Say whether nobody would miss an image; how long it is known is another question."""
    return not image.in_use and not image.pinned


def is_too_old(image: NodeImage, policy: ImagePolicy, at: datetime) -> bool:
    """Say whether an image has been unused for longer than imageMaximumGCAge (freeOldImages)."""
    maximum = policy.maximum_age
    return maximum is not None and may_go(image) and at - image.age.idle_since > maximum


def may_make_room(image: NodeImage, policy: ImagePolicy, at: datetime) -> bool:
    """Say whether an image may be removed to make room: what was just pulled will be used right away (freeSpace)."""
    return may_go(image) and at - image.age.detected_at >= policy.minimum_age


def is_too_full(use: ImageUse, policy: ImagePolicy) -> bool:
    """Say whether imageGCHighThresholdPercent is reached; 100 without a maximum age is off (kubelet.go StartGarbageCollection)."""
    off = policy.high_threshold_percent == 100 and not policy.maximum_age
    return not off and use.disk.used_percent >= policy.high_threshold_percent


def is_worth_telling(use: ImageUse, policy: ImagePolicy, *, too_full_known: bool) -> bool:
    """Say whether something has to be done, or nothing can be done and nobody knows, or that is over."""
    if any(is_too_old(image, policy, use.at) for image in use.images):
        return True
    if not is_too_full(use, policy):
        return too_full_known
    return not too_full_known or any(may_make_room(image, policy, use.at) for image in use.images)
