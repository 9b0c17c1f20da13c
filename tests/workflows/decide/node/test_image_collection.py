"""Which images are removed, in which order, and which never?"""

from datetime import UTC, datetime, timedelta
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto.kubernetes.image_age import is_removable, is_too_full, needs_attention
from proto.temporal.node import DiskUse, ImageAge, ImagePolicy, ImageUse, NodeImage
from workflows.decide.node.image_collection import cannot_make_room, choose, room_to_make, size_in_words

NOW: Final = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
MINUTE: Final = timedelta(minutes=1)
POLICY: Final = ImagePolicy()
OLD_GO: Final = ImagePolicy(maximum_age=timedelta(hours=1))


def image(
    name: str, known: int = 10, idle: int | None = None, size: int = 10, *, in_use: bool = False, pinned: bool = False
) -> NodeImage:
    """Build an image that is known and has been unused for this many minutes; None: never used."""
    age = ImageAge(name, NOW - known * MINUTE, None if idle is None else NOW - idle * MINUTE)
    return NodeImage(name, (f"{name}:1",), size, age, in_use=in_use, pinned=pinned)


def use(free: int, *images: NodeImage, agent: int | None = None) -> ImageUse:
    """Build a disk of 100 bytes with this much free space, seen by an agent that runs for this many minutes; None: it does not say."""
    return ImageUse(NOW, DiskUse(100, free), images, None if agent is None else NOW - agent * MINUTE)


ROWS: Final[dict[str, tuple[ImageUse, ImagePolicy, list[str]]]] = {
    "room enough": (use(16, image("a")), POLICY, []),
    "just at the high threshold": (use(15, image("a")), POLICY, ["a"]),
    "only as many as bring it to the low threshold": (
        use(5, image("a", idle=9), image("b", idle=8), image("c", idle=7)),
        POLICY,
        ["a", "b"],
    ),
    "never used goes before long unused": (use(15, image("used", idle=9), image("never")), POLICY, ["never"]),
    "of two never used, the one known for longer": (
        use(15, image("new", known=5), image("old", known=50)),
        POLICY,
        ["old"],
    ),
    "in use stays": (use(0, image("a", in_use=True)), POLICY, []),
    "pinned stays": (use(0, image("a", pinned=True)), POLICY, []),
    "just pulled stays": (use(0, image("a", known=1)), POLICY, []),
    "as old as the minimum age goes": (use(15, image("a", known=2)), POLICY, ["a"]),
    "high threshold 100 is off": (use(0, image("a")), ImagePolicy(100, 80), []),
    "but not beside a maximum age": (use(0, image("a")), ImagePolicy(100, 80, maximum_age=timedelta(hours=9)), ["a"]),
    "too old goes though there is room": (use(90, image("a", 99, 61), image("b", 99, 59)), OLD_GO, ["a"]),
    "all that is too old goes": (use(90, image("a", 99, 61), image("b", 99, 71)), OLD_GO, ["b", "a"]),
    "never used counts from when it was seen first": (use(90, image("a", 61), image("b", 59)), OLD_GO, ["a"]),
    "too old, but the agent has not run for that long": (use(90, image("a", 99, 61), agent=60), OLD_GO, []),
    "too old, and the agent has run for longer": (use(90, image("a", 99, 61), agent=61), OLD_GO, ["a"]),
    "an agent that has just begun makes room": (use(15, image("a", 99, 61), agent=0), OLD_GO, ["a"]),
    "too old but in use": (use(90, image("a", 99, 61, in_use=True)), OLD_GO, []),
    "too old but pinned": (use(90, image("a", 99, 61, pinned=True)), OLD_GO, []),
    "too old first, the disk is looked at again then": (use(5, image("a", 99, 61), image("b")), OLD_GO, ["a"]),
    "no images": (use(0), POLICY, []),
    "a disk that does not say its size": (ImageUse(NOW, DiskUse(0, 0), (image("a"),)), POLICY, []),
}


@pytest.mark.parametrize(("seen", "policy", "names"), ROWS.values(), ids=ROWS)
def test_what_goes(seen: ImageUse, policy: ImagePolicy, names: list[str]) -> None:
    """By age, then by need, least recently used first."""
    assert [one.image_id for one in choose(seen, policy)] == names


def test_each_says_why() -> None:
    """The UI shows the reason beside the name."""
    (by_age,) = choose(use(90, image("a", 99, 61)), OLD_GO)
    assert by_age.reason == "unused for 61 min, longer than imageMaximumGCAge"
    (by_need,) = choose(use(10, image("a", known=500)), POLICY)
    assert by_need.reason == (
        "the disk is 90 % full, and from 85 % on room is made; no container has used it in the 8 h that it is known"
    )


def test_a_full_disk_that_nothing_can_free_is_told() -> None:
    """With what uses the images, and where else to look."""
    seen = use(3, image("a", in_use=True), image("b", known=1))
    words = cannot_make_room(seen, POLICY)
    assert "97% of 100 B used" in words
    assert "1 in use or pinned, 1 known for less than 120 s" in words
    assert not cannot_make_room(use(3, image("a")), POLICY)
    assert not cannot_make_room(use(50, image("a")), POLICY)


@pytest.mark.parametrize(
    ("size", "words"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB"), (3 << 40, "3.0 TiB")]
)
def test_sizes_in_words(size: int, words: str) -> None:
    """In the kubelet's format."""
    assert size_in_words(size) == words


IMAGES = st.lists(
    st.builds(
        image,
        st.text("abc", min_size=1, max_size=3),
        known=st.integers(0, 200),
        idle=st.none() | st.integers(0, 200),
        size=st.integers(0, 60),
        in_use=st.booleans(),
        pinned=st.booleans(),
    ),
    max_size=6,
    unique_by=lambda one: one.image_id,
)
POLICIES = st.builds(
    ImagePolicy,
    st.integers(51, 100),
    st.integers(0, 50),
    st.sampled_from([timedelta(), 2 * MINUTE, 60 * MINUTE]),
    st.none() | st.sampled_from([30 * MINUTE, 100 * MINUTE]),
)


@given(st.integers(0, 100), IMAGES, POLICIES, st.booleans())
def test_the_watch_wakes_the_workflow_when_and_only_when_it_has_something_to_say(
    free: int, images: list[NodeImage], policy: ImagePolicy, known: bool
) -> None:
    """Otherwise the two would call each other for ever, or a full disk would go unreported."""
    seen = use(free, *images)
    news = bool(choose(seen, policy)) or bool(cannot_make_room(seen, policy)) != known
    assert needs_attention(seen, policy, too_full_known=known) == news


@given(st.integers(0, 100), IMAGES, POLICIES)
def test_what_goes_is_nobodys_and_no_more_than_needed(free: int, images: list[NodeImage], policy: ImagePolicy) -> None:
    """For every random node."""
    seen = use(free, *images)
    chosen = choose(seen, policy)
    by_id = {one.image_id: one for one in images}
    assert all(is_removable(by_id[one.image_id]) for one in chosen)
    if chosen and policy.maximum_age is None:
        assert is_too_full(seen, policy)
        assert sum(one.size_bytes for one in chosen[:-1]) < room_to_make(seen, policy)
