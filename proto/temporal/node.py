"""The types of a node's workflow: its start, its state, its activities and queries.

Pods have workflows of their own (`pod.py`). This one is about what they share: the images on the node's disk, exclusive hardware. Times are
aware UTC datetimes, sizes are bytes. Fields are only ever added, each with a default.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from proto.temporal.dropped import DroppedSignals
from proto.temporal.hardware.ledger import PodAssignment
from proto.temporal.pod_inputs import HandBack
from proto.temporal.ticket import UNTICKETED, Ticket


@dataclass(frozen=True, slots=True)
class ImagePolicy:
    """When images are removed; names and defaults are KubeletConfiguration's, except for `look_every`."""

    high_threshold_percent: int = 85
    """Usage of the images' file system above which images are removed."""
    low_threshold_percent: int = 80
    """Images are removed until usage is below this."""
    minimum_age: timedelta = timedelta(minutes=2)
    """An image known for less time is not removed to make room."""
    maximum_age: timedelta | None = None
    """An image unused for longer is always removed; None: no image is too old."""
    look_every: timedelta = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class NodeConfigured:
    """The node's configuration, sent when its poller starts; may start the node's workflow."""

    policy: ImagePolicy = ImagePolicy()
    prepull: tuple[str, ...] = ()
    """Images to pull before a pod asks for them, one after the other in this order."""


@dataclass(frozen=True, slots=True)
class ImageAge:
    """When an image was first seen, and when it was last in use; the runtime reports neither."""

    image_id: str
    detected_at: datetime
    used_at: datetime | None = None

    @property
    def idle_since(self) -> datetime:
        """When it was last in use, as far as is known."""
        return self.used_at or self.detected_at


@dataclass(frozen=True, slots=True)
class NodeImage:
    """One image on the node."""

    image_id: str
    names: tuple[str, ...]
    """Tags, or digests if it has none."""
    size_bytes: int
    age: ImageAge
    in_use: bool = False
    """A container uses or mounts it, dead or alive."""
    pinned: bool = False
    """The runtime never removes it."""

    @property
    def name(self) -> str:
        """The name for messages."""
        return self.names[0] if self.names else self.image_id


@dataclass(frozen=True, slots=True)
class DiskUse:
    """How full the images' file system is."""

    capacity_bytes: int
    available_bytes: int

    @property
    def used_percent(self) -> int:
        """In whole percents, computed as in the kubelet (image_gc_manager.go GarbageCollect)."""
        if self.capacity_bytes <= 0:
            return 0
        return 100 - min(self.available_bytes, self.capacity_bytes) * 100 // self.capacity_bytes


@dataclass(frozen=True, slots=True)
class ImageUse:
    """All images of the node and their disk at one time."""

    at: datetime
    disk: DiskUse
    images: tuple[NodeImage, ...] = ()
    agent_began: datetime | None = None
    """When the agent that looked began; None: an earlier release did not tell."""


@dataclass(frozen=True, slots=True)
class WatchImages:
    """Look at the images at intervals, until something may have to be done; answers the ImageUse."""

    policy: ImagePolicy
    known: tuple[ImageAge, ...] = ()
    """What an earlier watch knew."""
    too_full: bool = False
    """The disk is known to be too full with nothing to remove: answer when that has changed."""
    policies: int = 0
    """The number of earlier policies: a watch by one of them may still be ending."""


@dataclass(frozen=True, slots=True)
class RemoveImage:
    """Remove an unused image."""

    image_id: str
    name: str
    reason: str
    """Why it is removed, for `tempolet history`."""


@dataclass(frozen=True, slots=True)
class RemovedImage:
    """Whether the image was removed."""

    in_use_by: str = ""
    """The container that uses it by now, so that it stays; empty if it was removed."""


@dataclass(frozen=True, slots=True)
class PrepullImage:
    """Pull an image, whatever pods there are; answers a PulledImage."""

    image: str


@dataclass(frozen=True, slots=True)
class Removal:
    """An image to remove, and why."""

    image_id: str
    name: str
    size_bytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class NodeNews:
    """One line about what was done to images or decided under pressure, for the card and for queries."""

    at: datetime
    words: str


@dataclass(frozen=True, slots=True)
class PrepullFailure:
    """Why an image of the prepull list is missing."""

    reason: str
    message: str
    at: datetime
    delay: timedelta
    """How long after the failure it is retried."""


@dataclass(slots=True)
class NodeObserved:
    """All that is known of the node's images; continue-as-new carries it."""

    configured: NodeConfigured | None = None
    policies: int = 0
    """The number of earlier policies."""
    disk: DiskUse | None = None
    seen_at: datetime | None = None
    ages: tuple[ImageAge, ...] = ()
    removals: tuple[Removal, ...] = ()
    """What this round still has to remove."""
    look_at: datetime | None = None
    """When the images are looked at again; None: at once."""
    too_full: str = ""
    """Why no room can be made, while that is so."""
    to_prepull: tuple[str, ...] = ()
    prepull_failures: dict[str, PrepullFailure] = field(default_factory=dict)
    news: tuple[NodeNews, ...] = ()
    """The latest lines."""
    signals: int = 0
    dropped: DroppedSignals | None = None
    """None if no signal was dropped."""
    assignments: dict[str, PodAssignment] = field(default_factory=dict)
    """The ledger of exclusive hardware, by uid of the pod."""


@dataclass(frozen=True, slots=True)
class NodeStart:
    """The input of a node's workflow."""

    node: str
    behaviour: int = 1
    """A number of `NODE_BEHAVIOURS`."""
    observed: NodeObserved | None = None
    ticket: Ticket = UNTICKETED
    handed_back: HandBack | None = None
    """When the worker last led the node's images without Temporal."""


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """The answer of the query NodeStatus."""

    disk: DiskUse | None
    images: int
    too_full: str
    prepulling: tuple[str, ...]
    news: tuple[NodeNews, ...]
    failures: dict[str, PrepullFailure] = field(default_factory=dict)
    """By image, for those that are still to be prepulled."""
    assignments: dict[str, PodAssignment] = field(default_factory=dict)
    """Exclusive hardware, by uid of the pod."""
