"""Does the node tell of its images' collection what a kubelet tells, and when?"""

from datetime import UTC, datetime, timedelta

import pytest

from proto.image_collection import CollectionStep, ImageGone, ImagesSeen, ImageStays, ImagesUnseen
from proto.kubernetes.image_age import BY_AGE
from proto.temporal.node import DiskUse, ImageAge, ImagePolicy, ImageUse, NodeImage, RemoveImage
from workflows.decide.node.collection_events import Collection, fold_step

NOW = datetime(2026, 11, 28, tzinfo=UTC)
POLICY = ImagePolicy(look_every=timedelta(minutes=5))
OFF = ImagePolicy(high_threshold_percent=100, look_every=timedelta(minutes=5))
FULL, ROOM = DiskUse(2**30, 0), DiskUse(2**30, 2**30)
AWAY = ("ImageGCFailed", "connection refused")
INVALID = "invalid capacity 0 on image filesystem"


def image(name: str, *, in_use: bool = False) -> NodeImage:
    """Return an image of a day ago, of 7 bytes."""
    return NodeImage(name, (f"{name}:1",), 7, ImageAge(name, NOW - timedelta(days=1)), in_use=in_use)


def seen(minutes: float, disk: DiskUse = FULL, *images: NodeImage, policy: ImagePolicy = POLICY) -> ImagesSeen:
    """Return a look."""
    return ImagesSeen(ImageUse(NOW + timedelta(minutes=minutes), disk, images), policy)


def away(minutes: float, policy: ImagePolicy = POLICY) -> ImagesUnseen:
    """Return a look that failed."""
    return ImagesUnseen(NOW + timedelta(minutes=minutes), policy, "connection refused")


def stays(name: str, error: str, reason: str = "the disk is full") -> ImageStays:
    """Return a removal that failed."""
    return ImageStays(RemoveImage(name, name, reason), error)


def insufficient(freed: int) -> str:
    """Return the kubelet's sentence."""
    return (
        "Insufficient free disk space on the node's image filesystem (100% of 1.0 GiB used). Failed to free sufficient "
        f"space by deleting unused images (freed {freed} bytes). Investigate disk usage, as it could be used by active "
        "images, logs, volumes, or other data."
    )


TOO_FULL = ("FreeDiskSpaceFailed", insufficient(0))
AGAIN = ("ImageGCFailed", insufficient(0))
WANTED = 2**30 * 20 // 100


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        pytest.param([seen(0, ROOM)], [], id="there-is-room"),
        pytest.param([seen(0)], [TOO_FULL], id="nothing-can-go"),
        pytest.param([seen(0), seen(0.1), seen(4.9)], [TOO_FULL], id="looks-out-of-turn-are-no-rounds"),
        pytest.param([seen(0), seen(5)], [TOO_FULL, TOO_FULL, AGAIN], id="failed-twice-in-a-row"),
        pytest.param([seen(0), seen(5, ROOM), seen(10)], [TOO_FULL, TOO_FULL], id="a-success-between"),
        pytest.param(
            [seen(0, FULL, image("a")), ImageGone("a"), seen(0.1, FULL, image("b", in_use=True))],
            [("FreeDiskSpaceFailed", insufficient(7))],
            id="too-little-was-freed",
        ),
        pytest.param([seen(0, FULL, image("a")), ImageGone("a"), seen(0.1, ROOM)], [], id="enough-was-freed"),
        pytest.param([seen(0, FULL, image("a", in_use=True))], [TOO_FULL], id="all-in-use"),
        pytest.param([seen(0, DiskUse(0, 0))], [("InvalidDiskCapacity", INVALID)], id="a-disk-without-capacity"),
        pytest.param([away(0)], [], id="the-runtime-was-away-once"),
        pytest.param([away(0), away(5)], [AWAY], id="the-runtime-is-away"),
        pytest.param([away(0), seen(5)], [TOO_FULL, AGAIN], id="failed-twice-for-two-reasons"),
        pytest.param([away(0, OFF), away(5, OFF), seen(10, DiskUse(0, 0), policy=OFF)], [], id="switched-off"),
        pytest.param(
            [seen(0, FULL, image("a"), image("b")), stays("a", "busy"), ImageGone("b"), seen(5), away(10)],
            [AWAY],
            id="the-first-failure-is-not-told",
        ),
        pytest.param(
            [away(-5), seen(0, FULL, image("a"), image("b")), stays("a", "busy"), stays("b", "no"), seen(5)],
            [
                (
                    "ImageGCFailed",
                    f"wanted to free {WANTED} bytes, but freed 0 bytes space with errors in image deletion: [busy, no]",
                )
            ],
            id="removals-failed",
        ),
        pytest.param(
            [
                away(-5),
                seen(0, ROOM, image("a"), policy=ImagePolicy(maximum_age=timedelta(minutes=90))),
                stays("a", "busy", f"unused for 1 d, {BY_AGE}"),
                seen(5, ROOM, image("a"), policy=ImagePolicy(maximum_age=timedelta(minutes=90))),
            ],
            [
                (
                    "ImageGCFailed",
                    "wanted to free images older than 1h30m0s, encountered errors in image deletion: busy",
                )
            ],
            id="an-old-image-stays",
        ),
    ],
)
def test_what_is_told(steps: list[CollectionStep], told: list[tuple[str, str]]) -> None:
    """Row by row, as of StartGarbageCollection and GarbageCollect."""
    known, found = Collection(), []
    for step in steps:
        known, events = fold_step(known, step)
        found += [(one.reason, one.message) for one in events]
    assert found == told
