"""What the watch of the images knows, for others in this process who judge whether an image may go."""

from collections.abc import Mapping

from proto.temporal.node import ImageAge


class ImageAges:
    """Since when each image is known, and when it was last used, as the newest watch of this process has seen it."""

    def __init__(self) -> None:
        self.known: Mapping[str, ImageAge] = {}
        """By image id; empty until a watch has begun."""
