"""What happens in the collection of images, in the order in which it happens: for the node's events about it."""

from dataclasses import dataclass
from datetime import datetime

from proto.temporal.node import ImagePolicy, ImageUse, RemoveImage


@dataclass(frozen=True, slots=True)
class ImagesSeen:
    """The images and their disk were looked at."""

    use: ImageUse
    policy: ImagePolicy


@dataclass(frozen=True, slots=True)
class ImagesUnseen:
    """The runtime did not list the images."""

    at: datetime
    policy: ImagePolicy
    error: str


@dataclass(frozen=True, slots=True)
class ImageGone:
    """An image was removed."""

    image_id: str


@dataclass(frozen=True, slots=True)
class ImageStays:
    """An image could not be removed."""

    removal: RemoveImage
    error: str


CollectionStep = ImagesSeen | ImagesUnseen | ImageGone | ImageStays


def ignore_step(_: CollectionStep) -> None:
    """Ignore a step."""
