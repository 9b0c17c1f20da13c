"""What a node's workflow is started with, remembers, asks of activities and is answered.

The pods have workflows of their own (pod.py); this one is about what all of them share: the images on the node's disk.
Times are aware UTC datetimes, sizes bytes. Fields are only ever added, each with a default.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class ImagePolicy:
    """When images are removed; the names and defaults are KubeletConfiguration's, but for `look_every`."""

    high_threshold_percent: int = 85
    """Of the images' file system: from here on room is made."""
    low_threshold_percent: int = 80
    """Until so much is used, room is made."""
    minimum_age: timedelta = timedelta(minutes=2)
    """Known for less: never removed to make room."""
    maximum_age: timedelta | None = None
    """Unused for longer: removed however much room there is; None: no image is too old."""
    look_every: timedelta = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class NodeConfigured:
    """The node's configuration, as its poller starts with it (the signal that may start the node's workflow)."""

    policy: ImagePolicy = ImagePolicy()
    prepull: tuple[str, ...] = ()
    """Images to have before a pod asks, one after the other, in this order."""


@dataclass(frozen=True, slots=True)
class ImageAge:
    """Since when an image is known, and when it was last seen in use; the runtime tells neither."""

    image_id: str
    detected_at: datetime
    used_at: datetime | None = None

    @property
    def idle_since(self) -> datetime:
        """When it was last of use to anybody, as far as is known."""
        return self.used_at or self.detected_at


@dataclass(frozen=True, slots=True)
class NodeImage:
    """One image on the node."""

    image_id: str
    names: tuple[str, ...]
    """Tags, or digests where it has none."""
    size_bytes: int
    age: ImageAge
    in_use: bool = False
    """A container is made of it or mounts it, be it dead or alive."""
    pinned: bool = False
    """The runtime keeps it, whoever asks."""

    @property
    def name(self) -> str:
        """What a reader calls it."""
        return self.names[0] if self.names else self.image_id


@dataclass(frozen=True, slots=True)
class DiskUse:
    """How full the file system is that holds the images."""

    capacity_bytes: int
    available_bytes: int

    @property
    def used_percent(self) -> int:
        """In whole percents, counted as the kubelet does (image_gc_manager.go GarbageCollect)."""
        if self.capacity_bytes <= 0:
            return 0
        return 100 - min(self.available_bytes, self.capacity_bytes) * 100 // self.capacity_bytes


@dataclass(frozen=True, slots=True)
class ImageUse:
    """All images of the node and the disk that they lie on, seen at one time."""

    at: datetime
    disk: DiskUse
    images: tuple[NodeImage, ...] = ()


@dataclass(frozen=True, slots=True)
class WatchImages:
    """Look at the images now and then, until something may have to be done about them; answers the ImageUse."""

    policy: ImagePolicy
    known: tuple[ImageAge, ...] = ()
    """What an earlier watch knew."""
    too_full: bool = False
    """It is known that the disk is too full and nothing can go: tell when that has changed."""
    policies: int = 0
    """How many policies there were before this one: a watch by an older one may still be ending."""


@dataclass(frozen=True, slots=True)
class RemoveImage:
    """Remove an image that nobody uses."""

    image_id: str
    name: str
    reason: str
    """For the story: why it goes."""


@dataclass(frozen=True, slots=True)
class RemovedImage:
    """What became of it."""

    in_use_by: str = ""
    """The container that uses it by now, so it stays; empty: it is gone."""


@dataclass(frozen=True, slots=True)
class PrepullImage:
    """Have an image on the node, whatever pods there are; answers a PulledImage."""

    image: str


@dataclass(frozen=True, slots=True)
class Removal:
    """An image that is to go, and why."""

    image_id: str
    name: str
    size_bytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class ImageNews:
    """One line of what was done about images: for the card and for queries."""

    at: datetime
    words: str


@dataclass(frozen=True, slots=True)
class PrepullFailure:
    """Why an image of the list is not there yet."""

    reason: str
    message: str
    at: datetime
    delay: timedelta
    """How long it waits from then on."""


@dataclass(slots=True)
class NodeObserved:
    """All that is known of the node's images; continue-as-new carries it."""

    configured: NodeConfigured | None = None
    policies: int = 0
    """How many policies there were before this one."""
    disk: DiskUse | None = None
    seen_at: datetime | None = None
    ages: tuple[ImageAge, ...] = ()
    removals: tuple[Removal, ...] = ()
    """What this round still has to remove."""
    look_at: datetime | None = None
    """Not before this time are the images looked at again; None: at once."""
    too_full: str = ""
    """Why room could not be made, while that is so."""
    to_prepull: tuple[str, ...] = ()
    prepull_failures: dict[str, PrepullFailure] = field(default_factory=dict)
    news: tuple[ImageNews, ...] = ()
    """The last of them."""
    signals: int = 0


@dataclass(frozen=True, slots=True)
class NodeStart:
    """What a node's workflow starts with."""

    node: str
    behaviour: int = 1
    """Of `NODE_BEHAVIOURS`."""
    observed: NodeObserved | None = None


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """What the query NodeStatus answers."""

    disk: DiskUse | None
    images: int
    too_full: str
    prepulling: tuple[str, ...]
    news: tuple[ImageNews, ...]
    failures: dict[str, PrepullFailure] = field(default_factory=dict)
    """Of those that are still to be prepulled, by image."""
