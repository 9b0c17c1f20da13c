"""A pod's steps in one list, read downward to start a pod and upward to stop it.

Each step has its undo beside it; an undo yields nothing if the step was never done. While a pod is wanted, every step
is asked for its actions and waits, so images, directories and sandbox are made concurrently. For a terminating pod the
steps are undone one after the other: a step is undone when everything below it is gone.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from workflows.decide.actions import Action, Wake
from workflows.decide.keys import CLAIMS_KEY, OBJECT_KEY, RESOURCES_KEY, SANDBOX_KEY, VOLUMES_KEY
from workflows.decide.situation import Situation
from workflows.decide.steps.claims import prepare_claims, unprepare_claims
from workflows.decide.steps.containers import start_containers, tidy
from workflows.decide.steps.images import pull_images
from workflows.decide.steps.object_deletion import delete_object
from workflows.decide.steps.probes import probe_containers
from workflows.decide.steps.resize import resize_pod
from workflows.decide.steps.sandbox import make_directories, run_sandbox
from workflows.decide.steps.termination import remove_directories, remove_sandboxes, stop_containers, stop_sandbox
from workflows.decide.steps.volumes import mount_volumes, unmount_volumes

Decision = Callable[[Situation], Iterator[Action | Wake]]


def nothing(_: Situation) -> Iterator[Action | Wake]:
    """Yield nothing: the step needs no undo, or is only an undo."""
    return iter(())


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a pod's life: how it is done, how it is undone, and the keys of its actions."""

    name: str
    do: Decision
    undo: Decision
    keys: tuple[str, ...]


ORDER: Final = (
    Step("object", nothing, delete_object, (OBJECT_KEY,)),
    Step("directories", make_directories, remove_directories, ("directories",)),
    Step("volumes", mount_volumes, unmount_volumes, (VOLUMES_KEY,)),
    Step("images", pull_images, nothing, ("images", "image/")),
    Step("sandbox record", nothing, remove_sandboxes, ("remove-sandbox/",)),
    Step("claims", prepare_claims, unprepare_claims, (CLAIMS_KEY,)),
    Step("sandbox", run_sandbox, stop_sandbox, (SANDBOX_KEY,)),
    Step("resources", resize_pod, nothing, (RESOURCES_KEY,)),
    Step("containers", start_containers, stop_containers, ("container/", "hook/")),
    Step("probes", probe_containers, nothing, ()),  # they end with their containers, so nothing waits for them
    Step("tidy", tidy, nothing, ("remove-container/",)),
)
