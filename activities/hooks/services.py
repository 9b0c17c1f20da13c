"""The services that hooks use: they may run containers and pull images."""

from typing import Protocol

from activities.containers.services import ContainerServices
from activities.images.services import ImageServices


class HookServices(ContainerServices, ImageServices, Protocol):
    """The services that hooks use."""
