"""What to do now for a node, and what an answer changes: the core of NodeWorkflow.

Four things run concurrently, each one step at a time: images are watched, chosen images are removed, the images
of the prepull list are pulled, and new pods are given exclusive hardware (`ledger.py`). After a round of removals the disk is measured again, so that it, and not a sum, says
whether there is room. A round with a failure is followed by a pause.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from proto.temporal.activities.requests import PulledImage
from proto.temporal.hardware.ledger import Admit, AllocateHardware, PodAssignment
from proto.temporal.node import (
    ImageUse,
    NodeConfigured,
    NodeNews,
    NodeObserved,
    PrepullFailure,
    PrepullImage,
    RemovedImage,
    RemoveImage,
    WatchImages,
)
from proto.temporal.signals import PressureJudged
from workflows.decide.actions import Wake
from workflows.decide.containers.backoff import next_image_delay
from workflows.decide.node.actions import WATCH, NodeAction, node_key
from workflows.decide.node.image_collection import cannot_make_room, choose, size_in_words
from workflows.decide.node.ledger import allocations, recorded

NodeAnswer = ImageUse | RemovedImage | PulledImage | PodAssignment

NEWS_KEPT: Final = 20
FIRST_DELAY: Final = timedelta(seconds=10)
LONGEST_DELAY: Final = timedelta(hours=1)
"""Between two tries to prepull an image; no pod waits for it, so it may be longer than the 300 s of a pod."""


@dataclass(frozen=True, slots=True)
class NodeSituation:
    """Everything that a decision depends on."""

    observed: NodeObserved
    now: datetime
    busy: frozenset[str] = field(default_factory=frozenset)
    """The keys of the actions under way."""
    admissions: tuple[Admit, ...] = ()
    """The pods that wait for hardware, in this order."""


def node_actions(situation: NodeSituation) -> Iterator[NodeAction | Wake]:
    """Return what to begin now, and when to look again."""
    observed = situation.observed
    yield from allocations(observed, situation.admissions, situation.busy)
    if observed.configured is None:
        return
    yield from _collect(situation)
    yield from _prepull(situation)


def _collect(situation: NodeSituation) -> Iterator[NodeAction | Wake]:
    """Remove the chosen images one after the other, else watch."""
    observed = situation.observed
    if observed.removals:
        first = observed.removals[0]
        action: NodeAction = RemoveImage(first.image_id, first.name, first.reason)
    elif observed.look_at and observed.look_at > situation.now:
        yield Wake(
            observed.look_at, f"look at the images again at {observed.look_at:%H:%M:%S}", node_key(_watch(observed))
        )
        return
    else:
        action = _watch(observed)
    if node_key(action) not in situation.busy:
        yield action


def _watch(observed: NodeObserved) -> WatchImages:
    assert observed.configured is not None
    return WatchImages(
        observed.configured.policy, observed.ages, too_full=bool(observed.too_full), policies=observed.policies
    )


def _prepull(situation: NodeSituation) -> Iterator[NodeAction | Wake]:
    """Pull the first image that is due, unless one is being pulled."""
    observed = situation.observed
    waits = []
    for image in observed.to_prepull:
        action = PrepullImage(image)
        if node_key(action) in situation.busy:
            return
        failure = observed.prepull_failures.get(image)
        at = failure.at + failure.delay if failure else situation.now
        if at <= situation.now:
            yield action
            return
        waits.append((at, image))
    if waits:
        at, image = min(waits)
        yield Wake(at, f"prepull {image} again at {at:%H:%M:%S}", node_key(PrepullImage(image)))


def configured(situation: NodeSituation, signal: NodeConfigured) -> None:
    """Record the node's configuration, which comes at each start."""
    observed = situation.observed
    before = observed.configured
    observed.signals += 1
    observed.configured = signal
    observed.to_prepull = tuple(dict.fromkeys(signal.prepull))
    observed.prepull_failures = {}
    if before is not None and before.policy != signal.policy:
        observed.policies += 1
        observed.look_at, observed.removals = None, ()


def judged(situation: NodeSituation, signal: PressureJudged) -> None:
    """Record what the node decided under pressure; a signal that is sent again adds nothing."""
    observed = situation.observed
    fresh = (one for one in signal.news if one not in observed.news)
    observed.news = (*observed.news, *fresh)[-NEWS_KEPT:]


def outdated(situation: NodeSituation) -> list[str]:
    """List the keys of watches that follow an older policy."""
    watches = [key for key in situation.busy if key.startswith(f"{WATCH}/")]
    return [key for key in watches if key != f"{WATCH}/{situation.observed.policies}"]


def fold_node(situation: NodeSituation, action: NodeAction, answer: NodeAnswer) -> None:
    """Record an action's answer."""
    observed = situation.observed
    match action, answer:
        case WatchImages(), ImageUse():
            _images_seen(situation, answer)
        case RemoveImage(), RemovedImage(in_use_by=user):
            _removed(situation, action, f"stays: {user} uses it by now" if user else "removed")
        case PrepullImage(image=image), PulledImage():
            _prepulled(situation, image, answer)
        case AllocateHardware(), PodAssignment():
            recorded(observed, action, answer)
        case _:
            raise TypeError(f"{answer!r} answers no {action!r}")


def fold_node_failure(situation: NodeSituation, action: NodeAction, reason: str, message: str) -> None:
    """Record why an action failed, and when it is retried."""
    observed = situation.observed
    match action:
        case WatchImages(policy=policy):
            observed.look_at = situation.now + policy.look_every
            _add_news(situation, f"images not looked at: {reason}: {message}")
        case RemoveImage(name=name):
            assert observed.configured is not None
            observed.look_at = situation.now + observed.configured.policy.look_every
            observed.removals = observed.removals[1:]
            _add_news(situation, f"{name} not removed: {reason}: {message}")
        case PrepullImage(image=image):
            before = observed.prepull_failures.get(image)
            delay = next_image_delay(before.delay if before else None, FIRST_DELAY, LONGEST_DELAY)
            observed.prepull_failures[image] = PrepullFailure(reason, message, situation.now, delay)


def _images_seen(situation: NodeSituation, use: ImageUse) -> None:
    observed = situation.observed
    assert observed.configured is not None
    policy = observed.configured.policy
    observed.disk, observed.seen_at = use.disk, use.at
    observed.ages = tuple(one.age for one in use.images)
    observed.removals = choose(use, policy)
    observed.look_at = None
    too_full = cannot_make_room(use, policy)
    if bool(too_full) != bool(observed.too_full):
        _add_news(situation, f"FreeDiskSpaceFailed: {too_full}" if too_full else "there is room enough again")
    observed.too_full = too_full


def _removed(situation: NodeSituation, action: RemoveImage, what: str) -> None:
    observed = situation.observed
    size = sum(one.size_bytes for one in observed.removals if one.image_id == action.image_id)
    observed.removals = tuple(one for one in observed.removals if one.image_id != action.image_id)
    _add_news(situation, f"{action.name} ({size_in_words(size)}) {what}: {action.reason}")


def _prepulled(situation: NodeSituation, image: str, pulled: PulledImage) -> None:
    observed = situation.observed
    observed.to_prepull = tuple(one for one in observed.to_prepull if one != image)
    observed.prepull_failures = {key: one for key, one in observed.prepull_failures.items() if key != image}
    if not pulled.present:
        took = f"{size_in_words(pulled.size_bytes)} in {pulled.took.total_seconds():.1f} s"
        _add_news(situation, f"{image} prepulled, {took}")


def _add_news(situation: NodeSituation, words: str) -> None:
    observed = situation.observed
    observed.news = (*observed.news, NodeNews(situation.now, words))[-NEWS_KEPT:]


def carried(observed: NodeObserved) -> NodeObserved:
    """Return what the next run starts with."""
    return replace(observed, signals=0)
