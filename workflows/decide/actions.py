"""What can be decided: an action is the request of the activity that carries it out.

So there is one shape for "start web, attempt 3" in a decision, in the call and in the history. `key` names what an action
is about: two actions of one key never run side by side, and failures are remembered by it.
"""

from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Final

from proto.temporal.activities.requests import (
    AwaitPredecessor,
    DeletePodObject,
    MakePodDirectories,
    ProbeContainer,
    PullImage,
    ReadImages,
    ReadPodRuntime,
    RemoveContainer,
    RemovePodDirectories,
    RemovePodSandbox,
    RunHook,
    RunPodSandbox,
    ShortenStop,
    StartContainer,
    StopContainer,
    StopPodSandbox,
)
from proto.temporal.activities.resize import UpdateContainerResources, UpdatePodSandboxResources
from proto.temporal.activities.volumes import MountVolumes, UnmountVolumes

Action = (
    MakePodDirectories
    | RemovePodDirectories
    | DeletePodObject
    | AwaitPredecessor
    | RunPodSandbox
    | StopPodSandbox
    | RemovePodSandbox
    | ReadImages
    | PullImage
    | StartContainer
    | RunHook
    | StopContainer
    | ShortenStop
    | ProbeContainer
    | RemoveContainer
    | ReadPodRuntime
    | UpdatePodSandboxResources
    | UpdateContainerResources
    | MountVolumes
    | UnmountVolumes
)


LONGEST_IMAGE: Final = 800
"""Bytes of an image in a key. Temporal takes ids of 1,000; a longer one fails the workflow task for ever."""


RESOURCES_KEY: Final = "resources"
"""What resizing a pod's cgroup is about, and before a slash its containers."""


VOLUMES_KEY: Final = "volumes"
"""What mounting and unmounting are about."""


OBJECT_KEY: Final = "object"
"""What deleting the pod's object in the API is about."""


@dataclass(frozen=True, slots=True)
class Wake:
    """Look again at this time; the summary names the timer in the Temporal UI."""

    at: datetime
    summary: str
    about: str = ""
    """The key of what is due then, where there is one."""


def image_key(image: str, policy: str) -> str:
    """Name an image as the pod asks for it: two containers with different pull policies ask apart."""
    return f"{image} {policy}"


def container_key(name: str) -> str:
    """Name what starting and stopping a container are about."""
    return f"container/{name}"


def hook_key(name: str, hook: str) -> str:
    """Name a hook of a container, whichever instance it is for."""
    return f"hook/{name}/{hook}"


def key(action: Action) -> str:  # noqa: C901, PLR0912 - a table, one row a kind
    """Say what an action is about; also its activity id."""
    match action:
        case MakePodDirectories() | RemovePodDirectories():
            return "directories"
        case DeletePodObject():
            return OBJECT_KEY
        case AwaitPredecessor():
            return "predecessor"
        case RunPodSandbox() | StopPodSandbox():
            return "sandbox"
        case RemovePodSandbox(sandbox_id=sandbox_id):
            return f"remove-sandbox/{sandbox_id}"
        case ReadImages():
            return "images"
        case PullImage(image=image, policy=policy):
            asked = image_key(image, policy)
            too_long = len(asked.encode()) > LONGEST_IMAGE
            return f"image/{sha256(asked.encode()).hexdigest() if too_long else asked}"
        case StartContainer(container=container):
            return container_key(container["name"])
        case RunHook(name=name, hook=hook, container_id="", sandbox_id=sandbox_id, attempt=attempt):
            return f"{hook_key(name, hook)}/{sandbox_id}/{attempt}"  # before there is a container
        case RunHook(name=name, hook=hook, container_id=container_id):
            return f"{hook_key(name, hook)}/{container_id}"  # one that was given up may still be ending: never its id
        case StopContainer(name=name):
            return container_key(name)
        case ShortenStop(name=name, grace=grace, asked_at=asked_at):
            return f"{container_key(name)}/by-{asked_at + grace:%H:%M:%S}"  # one after the other may shorten it further
        case ProbeContainer(name=name):
            return f"probe/{name}"
        case RemoveContainer(container_id=container_id):
            return f"remove-container/{container_id}"
        case ReadPodRuntime():
            return "runtime"
        case UpdatePodSandboxResources():
            return RESOURCES_KEY
        case UpdateContainerResources(name=name):
            return f"{RESOURCES_KEY}/{name}"
        case MountVolumes() | UnmountVolumes():
            return VOLUMES_KEY


def holds_reread(action: Action) -> bool:
    """Say whether a re-read of the runtime waits for it: it changes what that would see, or reads at once itself."""
    waits_long = (PullImage, MakePodDirectories, AwaitPredecessor, ProbeContainer, RunHook)
    unseen = (DeletePodObject, UpdatePodSandboxResources, UpdateContainerResources, MountVolumes, UnmountVolumes)
    return not isinstance(action, (ReadPodRuntime, *waits_long, *unseen))


def is_endless(action: Action) -> bool:
    """Say whether it lasts as long as what it is about: nothing waits for its end."""
    return isinstance(action, ProbeContainer)
