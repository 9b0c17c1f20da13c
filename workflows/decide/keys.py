"""Keys of actions: no two actions with one key run side by side. A key is also the id of the activity."""

from typing import Final

LONGEST_IMAGE: Final = 800
"""Bytes of an image in a key. Temporal accepts ids of up to 1,000 bytes; a longer one fails the workflow task for ever."""
DIRECTORIES_KEY: Final = "directories"
"""The key of making and removing the pod's directories."""
RESOURCES_KEY: Final = "resources"
"""The key of resizing the pod's cgroup, and the prefix of those of its containers."""
VOLUMES_KEY: Final = "volumes"
"""The key of mounting and unmounting."""
OBJECT_KEY: Final = "object"
"""The key of deleting the pod's object in the API."""


def image_key(image: str, policy: str) -> str:
    """Name an image with its pull policy: containers with different policies pull separately."""
    return f"{image} {policy}"


def container_key(name: str) -> str:
    """Return the key of starting and stopping a container."""
    return f"container/{name}"


def hook_key(name: str, hook: str) -> str:
    """Return the prefix of the keys of a container's hook, whichever instance it is for."""
    return f"hook/{name}/{hook}"
