"""What hooks use of the node: they run in containers and may pull an image for that."""

from typing import Protocol

from activities.containers.services import ContainerServices
from activities.images.services import ImageServices


class HookServices(ContainerServices, ImageServices, Protocol):
    """What hooks use of the node."""
