"""What actions are about, as text: no two actions with one key run side by side; also the ids of activities."""

from typing import Final

LONGEST_IMAGE: Final = 800
"""Bytes of an image in a key. Temporal takes ids of up to 1,000 bytes; a longer one fails the workflow task for ever."""
DIRECTORIES_KEY: Final = "directories"
"""What making and removing the pod's directories are about."""
RESOURCES_KEY: Final = "resources"
"""What resizing a pod's cgroup is about; resizing a container has the container's name after it."""
VOLUMES_KEY: Final = "volumes"
"""What mounting and unmounting are about."""
OBJECT_KEY: Final = "object"
"""What deleting the pod's object in the API is about."""


def image_key(image: str, policy: str) -> str:
    """Name an image as the pod asks for it: two containers with different pull policies ask apart."""
    return f"{image} {policy}"


def container_key(name: str) -> str:
    """Name what starting and stopping a container are about."""
    return f"container/{name}"


def hook_key(name: str, hook: str) -> str:
    """Name a hook of a container, whichever instance it is for."""
    return f"hook/{name}/{hook}"
