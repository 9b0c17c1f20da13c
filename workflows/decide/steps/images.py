"""Which images to pull now.

All images that the pod's next containers need, while the sandbox is made: first find out which are present, then pull
those that are not. A container in back-off pulls when the back-off is over. With policy Always every start pulls
(pkg/kubelet/images/image_manager.go).
"""

from collections.abc import Iterator
from datetime import datetime

from proto.temporal.activities.requests import PullImage, ReadImages
from proto.temporal.images import ImageFacts
from workflows.decide.actions import Action, Wake, key
from workflows.decide.containers.standing import is_due, pod_is_done, stops_outdated
from workflows.decide.keys import image_key
from workflows.decide.situation import ImageRequest, Situation, pull_secrets, unless_backing_off
from workflows.decide.versions import FEWER_START_ACTIVITIES


def pull_images(situation: Situation) -> Iterator[Action | Wake]:
    """Pull every missing image of the containers that may start now."""
    if pod_is_done(situation):
        return
    lacking = {
        asked: None
        for one in situation.all_containers
        if is_due(situation, one) or stops_outdated(situation, one)
        for asked in situation.images_needed(one)
        if not situation.image_of(asked).pulled
    }
    unread = [asked for asked in lacking if is_unread(situation, *asked)]
    if unread:
        yield from unless_backing_off(
            situation, ReadImages(situation.key, tuple(dict.fromkeys(name for name, _ in unread)))
        )
    for asked in lacking:
        if asked not in unread:
            yield from pull_image(situation, asked)


def is_unread(situation: Situation, image: str, policy: str) -> bool:
    """Report whether it is still unknown if the image is present; with policy Always that does not matter."""
    known = image_key(image, policy) in situation.observed.images
    return situation.behaviour >= FEWER_START_ACTIVITIES and policy != "Always" and not known


def pull_image(situation: Situation, asked: ImageRequest) -> Iterator[Action | Wake]:
    """Pull an image, or wake when it is retried; nothing while the pull is under way."""
    action, image = pull(situation, asked), situation.image_of(asked)
    if key(action) in situation.busy:
        return
    if (at := pulls_at(image)) and at > situation.now:
        yield Wake(at, f"{image.reason}: pull {asked[0]} again at {at:%H:%M:%S}", key(action))
    else:
        yield action


def pull(situation: Situation, asked: ImageRequest) -> PullImage:
    """Return the request that pulls an image."""
    return PullImage(situation.key, *asked, pull_secrets(situation.spec))


def pulls_at(image: ImageFacts) -> datetime | None:
    """Return when a failed pull is retried, an operator's skip included; None if it has not failed."""
    if image.failed_at is None or not image.backoff:
        return None
    at = image.failed_at + image.backoff
    return at if image.skipped_at is None else min(at, image.skipped_at)


def image_action_key(situation: Situation, asked: ImageRequest) -> str:
    """Return the key of an image's pull."""
    return key(pull(situation, asked))
