"""Keys of actions: no two actions with one key run side by side. A key is also the id of the activity."""

from hashlib import sha256
from typing import Final

from proto.temporal.activities.requests import (
    PullImage,
    RunHook,
    ShortenStop,
)

LONGEST_IMAGE: Final = 800
"""Bytes of an image in a key. Temporal accepts ids of up to 1,000 bytes; a longer one fails the workflow task for ever."""
DIRECTORIES_KEY: Final = "directories"
"""The key of making and removing the pod's directories."""
SANDBOX_KEY: Final = "sandbox"
"""The key of running and stopping the pod's sandbox."""
RESOURCES_KEY: Final = "resources"
"""The key of resizing the pod's cgroup, and the prefix of those of its containers."""
VOLUMES_KEY: Final = "volumes"
"""The key of mounting and unmounting."""
CLAIMS_KEY: Final = "claims"
"""The key of preparing a pod's ResourceClaims, and of undoing it."""
OBJECT_KEY: Final = "object"
"""The key of deleting the pod's object in the API."""


def image_key(image: str, policy: str) -> str:
    """Name an image with its pull policy: containers with different policies pull separately."""
    return f"{image} {policy}"


def container_key(name: str) -> str:
    """Return the key of starting and stopping a container."""
    return f"container/{name}"


def probe_key(name: str) -> str:
    """Return the key of probing a container."""
    return f"probe/{name}"


def hook_key(name: str, hook: str) -> str:
    """Return the prefix of the keys of a container's hook, whichever instance it is for."""
    return f"hook/{name}/{hook}"


def pull_key(asked: PullImage) -> str:
    """Return the key of a pull: image and policy, hashed if they are too long for an activity's id."""
    name = image_key(asked.image, asked.policy)
    too_long = len(name.encode()) > LONGEST_IMAGE
    return f"image/{sha256(name.encode()).hexdigest() if too_long else name}"


def run_hook_key(asked: RunHook) -> str:
    """Return the key of a hook of one instance; a cancelled hook may still be running under its own id."""
    instance = asked.container_id or f"{asked.sandbox_id}/{asked.attempt}"  # before there is a container
    return f"{hook_key(asked.name, asked.hook)}/{instance}"


def shorten_stop_key(asked: ShortenStop) -> str:
    """Return the key of a shortened stop, with the time it ends, because another one may follow."""
    return f"{container_key(asked.name)}/by-{asked.asked_at + asked.grace:%H:%M:%S}"
