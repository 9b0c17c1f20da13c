"""What does a node's workflow start, and how does it handle the results?"""

from datetime import UTC, datetime, timedelta
from typing import Final

from proto.temporal.activities.requests import PulledImage
from proto.temporal.node import (
    DiskUse,
    ImageAge,
    ImagePolicy,
    ImageUse,
    NodeConfigured,
    NodeImage,
    NodeNews,
    NodeObserved,
    PrepullImage,
    RemovedImage,
    RemoveImage,
    WatchImages,
)
from proto.temporal.signals import PressureJudged
from workflows.decide.actions import Wake
from workflows.decide.node.actions import NodeAction, node_key
from workflows.decide.node.node import (
    NEWS_KEPT,
    NodeSituation,
    configured,
    fold_node,
    fold_node_failure,
    judged,
    node_actions,
    outdated,
)

NOW: Final = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
POLICY: Final = ImagePolicy()


def told(*prepull: str, policy: ImagePolicy = POLICY) -> NodeObserved:
    """Build a node that has just been configured."""
    observed = NodeObserved()
    configured(NodeSituation(observed, NOW), NodeConfigured(policy, prepull))
    return observed


def situation(observed: NodeObserved, *busy: str, after: int = 0) -> NodeSituation:
    """Build its situation some seconds later."""
    return NodeSituation(observed, NOW + timedelta(seconds=after), frozenset(busy))


def begun(observed: NodeObserved, *busy: str, after: int = 0) -> list[NodeAction | Wake]:
    """Return the actions that are started."""
    return list(node_actions(situation(observed, *busy, after=after)))


def full(*ids: str) -> ImageUse:
    """Build a disk that is far too full, with unused images."""
    age = NOW - timedelta(hours=1)
    images = tuple(NodeImage(one, (f"{one}:1",), 1 << 20, ImageAge(one, age)) for one in ids)
    return ImageUse(NOW, DiskUse(100 << 20, 0), images)


WATCHING: Final = WatchImages(POLICY)


def test_nothing_is_done_before_the_node_has_said_how() -> None:
    """The workflow's start alone has no configuration."""
    assert begun(NodeObserved()) == []


def test_images_are_watched_and_prepulled_side_by_side_and_one_after_the_other() -> None:
    """The watch keeps running; the next prepull waits for the previous one."""
    observed = told("a:1", "b:1", "a:1")
    assert begun(observed) == [WATCHING, PrepullImage("a:1")]
    assert begun(observed, "images/0", "prepull/a:1") == []
    fold_node(
        situation(observed), PrepullImage("a:1"), PulledImage("sha", size_bytes=1 << 20, took=timedelta(seconds=2))
    )
    assert begun(observed, "images/0") == [PrepullImage("b:1")]
    fold_node(situation(observed), PrepullImage("b:1"), PulledImage("sha", present=True))
    assert begun(observed, "images/0") == []
    assert [one.words for one in observed.news] == ["a:1 prepulled, 1.0 MiB in 2.0 s"]


def test_an_image_that_cannot_be_prepulled_holds_up_no_other_and_is_tried_again() -> None:
    """After 10 s, then 20 s, up to an hour."""
    observed = told("gone:1", "b:1")
    delays = []
    for _ in range(11):
        fold_node_failure(situation(observed), PrepullImage("gone:1"), "ErrImagePull", "not found")
        delays.append(observed.prepull_failures["gone:1"].delay.total_seconds())
    assert delays[:3] == [10, 20, 40]
    assert delays[-1] == 3600
    assert begun(observed, "images/0") == [PrepullImage("b:1")]
    observed.to_prepull = ("gone:1",)
    (wake,) = begun(observed, "images/0")
    assert wake == Wake(NOW + timedelta(hours=1), "prepull gone:1 again at 13:00:00", "prepull/gone:1")
    assert begun(observed, "images/0", after=3600) == [PrepullImage("gone:1")]


def test_what_was_chosen_goes_one_after_the_other_and_then_it_is_looked_again() -> None:
    """The watch, not our sum, tells when there is enough space; the images' ages are passed on."""
    observed = told()
    seen = full("a", "b")
    fold_node(situation(observed), WATCHING, seen)
    removals = []
    for one in "ab":
        (action,) = begun(observed)
        assert isinstance(action, RemoveImage)
        assert begun(observed, node_key(action)) == []
        removals.append(action.image_id)
        fold_node(situation(observed), action, RemovedImage(in_use_by="container web (0123)" if one == "b" else ""))
    assert removals == ["a", "b"]
    assert begun(observed) == [WatchImages(POLICY, tuple(one.age for one in seen.images))]
    first, second = (one.words for one in observed.news)
    assert first.startswith("a:1 (1.0 MiB) removed: the disk is 100 % full")
    assert second.startswith("b:1 (1.0 MiB) stays: container web (0123) uses it by now")


def test_a_removal_that_fails_is_not_tried_again_at_once() -> None:
    """The round's other images are removed; the next check comes at the usual time."""
    observed = told()
    fold_node(situation(observed), WATCHING, full("a", "b"))
    (first,) = begun(observed)
    assert isinstance(first, RemoveImage)
    fold_node_failure(situation(observed), first, "ImageGCFailed", "read-only file system")
    (second,) = begun(observed)
    assert isinstance(second, RemoveImage)
    fold_node(situation(observed), second, RemovedImage())
    (wake,) = begun(observed)
    assert isinstance(wake, Wake)
    assert wake.at == NOW + POLICY.look_every
    assert "not removed: ImageGCFailed: read-only file system" in observed.news[0].words


def test_a_disk_that_nothing_can_free_is_told_once_and_so_is_its_end() -> None:
    """In between the watch returns nothing: the history does not grow."""
    observed = told()
    fold_node(situation(observed), WATCHING, full())
    assert observed.too_full
    (watch,) = begun(observed)
    assert isinstance(watch, WatchImages)
    assert watch.too_full
    fold_node(situation(observed), watch, ImageUse(NOW, DiskUse(100, 90)))
    assert not observed.too_full
    assert [one.words.partition(":")[0] for one in observed.news] == [
        "FreeDiskSpaceFailed",
        "there is room enough again",
    ]


def test_a_new_policy_ends_the_old_watch_and_its_choice() -> None:
    """The same policy again, as after a restart, changes nothing; prepulling starts over in both cases."""
    observed = told("a:1")
    fold_node(situation(observed), PrepullImage("a:1"), PulledImage("sha", present=True))
    configured(situation(observed), NodeConfigured(POLICY, ("a:1",)))
    assert outdated(situation(observed, "images/0", "prepull/a:1")) == []
    assert observed.to_prepull == ("a:1",)
    fold_node(situation(observed), WATCHING, full("a"))
    other = ImagePolicy(high_threshold_percent=90)
    configured(situation(observed), NodeConfigured(other))
    assert outdated(situation(observed, "images/0", "prepull/a:1")) == ["images/0"]
    (watch,) = begun(observed)
    assert isinstance(watch, WatchImages)
    assert watch.policy == other


def test_only_the_last_news_are_kept() -> None:
    """The history has all of them."""
    observed = told()
    for number in range(NEWS_KEPT + 5):
        fold_node(situation(observed), PrepullImage(f"{number}:1"), PulledImage("sha"))
    assert len(observed.news) == NEWS_KEPT
    assert observed.news[-1].words.startswith(f"{NEWS_KEPT + 4}:1")


def test_what_was_decided_under_pressure_is_kept_once_and_starts_nothing() -> None:
    """Also if both sides are told; the oldest lines go."""
    observed = told()
    lines = tuple(NodeNews(NOW, f"line {number}") for number in range(NEWS_KEPT + 1))
    for _ in range(2):
        judged(situation(observed), PressureJudged(lines[:2]))
    assert observed.news == lines[:2]
    judged(situation(observed), PressureJudged(lines))
    assert observed.news == lines[1:]
    assert begun(observed) == [WATCHING]
