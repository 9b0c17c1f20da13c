"""The actions of a pod: an action is the request of the activity that carries it out.

So decisions, calls and the history share one type for "start web, attempt 3". `ACTIONS` has one row for each type of
action. Two actions with the same key never run side by side, and failures are recorded by key. An activity that may take
longer than a second heartbeats, and every deadline inside an activity is shorter than its limit here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from proto.temporal import names
from proto.temporal.activities.claims import PreparedResources, PrepareResources, UnprepareResources
from proto.temporal.activities.requests import (
    AwaitPredecessor,
    DeletePodObject,
    ImagesPresent,
    MakePodDirectories,
    PodRuntime,
    PodSandbox,
    ProbeContainer,
    PulledImage,
    PullImage,
    ReadImages,
    ReadPodRuntime,
    RemoveContainer,
    RemovePodDirectories,
    RemovePodSandbox,
    RunHook,
    RunPodSandbox,
    RuntimeContainer,
    ShortenStop,
    StartContainer,
    StopContainer,
    StopPodSandbox,
)
from proto.temporal.activities.resize import UpdateContainerResources, UpdatePodSandboxResources
from proto.temporal.activities.volumes import MountedVolumes, MountVolumes, UnmountVolumes
from proto.temporal.hooks import HookEnded
from proto.temporal.resources import RuntimeResources
from workflows.decide.action_type import PROBING, ActionType, Retry
from workflows.decide.keys import (
    CLAIMS_KEY,
    DIRECTORIES_KEY,
    OBJECT_KEY,
    RESOURCES_KEY,
    SANDBOX_KEY,
    VOLUMES_KEY,
    container_key,
    probe_key,
    pull_key,
    run_hook_key,
    shorten_stop_key,
)
from workflows.decide.summaries import hook_tries, probe_kinds, volume_names

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
    | PrepareResources
    | UnprepareResources
)


@dataclass(frozen=True, slots=True)
class Wake:
    """Look again at this time; the summary names the timer in the Temporal UI."""

    at: datetime
    summary: str
    about: str = ""
    """The key of what is due then, where there is one."""


def hook_retry(asked: RunHook) -> Retry | None:
    """Return the retry of a hook's annotation, if any; the activity itself counts the tries."""
    return Retry(asked.retry.initial, asked.retry.longest, asked.retry.factor) if asked.retry else None


ACTIONS: Final[Mapping[type, ActionType]] = {
    MakePodDirectories: ActionType(
        names.MAKE_POD_DIRECTORIES,
        key=lambda _: DIRECTORIES_KEY,
        summary=lambda _: "make directories",
        within=timedelta(minutes=1),
        heartbeat=None,
    ),
    RemovePodDirectories: ActionType(
        names.REMOVE_POD_DIRECTORIES,
        key=lambda _: DIRECTORIES_KEY,
        summary=lambda _: "remove directories, logs and cgroup",
        within=timedelta(minutes=10),
        holds_reread=True,
    ),
    DeletePodObject: ActionType(
        names.DELETE_POD_OBJECT,
        key=lambda _: OBJECT_KEY,
        summary=lambda asked: f"delete the pod's object, which ends {asked.status.get('phase', '')}",
        within=timedelta(minutes=2),
    ),
    AwaitPredecessor: ActionType(
        names.AWAIT_PREDECESSOR,
        key=lambda _: "predecessor",
        summary=lambda asked: f"wait until no other {asked.pod} is left",
        within=timedelta(days=365),
    ),
    RunPodSandbox: ActionType(
        names.RUN_POD_SANDBOX,
        key=lambda _: SANDBOX_KEY,
        summary=lambda asked: f"run sandbox, attempt {asked.attempt}",
        within=timedelta(minutes=5),
        result=PodSandbox,
        holds_reread=True,
    ),
    StopPodSandbox: ActionType(
        names.STOP_POD_SANDBOX,
        key=lambda _: SANDBOX_KEY,
        summary=lambda asked: f"stop sandbox {asked.sandbox_id[:12]}",
        within=timedelta(minutes=5),
        holds_reread=True,
    ),
    RemovePodSandbox: ActionType(
        names.REMOVE_POD_SANDBOX,
        key=lambda asked: f"remove-sandbox/{asked.sandbox_id}",
        summary=lambda asked: f"remove sandbox {asked.sandbox_id[:12]}",
        within=timedelta(minutes=5),
        holds_reread=True,
    ),
    MountVolumes: ActionType(
        names.MOUNT_VOLUMES,
        key=lambda _: VOLUMES_KEY,
        summary=lambda asked: f"{'mount' if asked.refresh is None else 'refresh'} {volume_names(asked.volumes)}",
        within=timedelta(hours=24),  # millions of files may have to change their group
        result=MountedVolumes,
    ),
    UnmountVolumes: ActionType(
        names.UNMOUNT_VOLUMES,
        key=lambda _: VOLUMES_KEY,
        summary=lambda asked: f"unmount {volume_names(asked.volumes)}",
        within=timedelta(hours=24),  # as above
    ),
    PrepareResources: ActionType(
        names.PREPARE_RESOURCES,
        key=lambda _: CLAIMS_KEY,
        summary=lambda _: "prepare resource claims",
        result=PreparedResources | None,  # earlier releases recorded no answer
        within=timedelta(minutes=5),  # drivers are asked side by side, 45 s each
    ),
    UnprepareResources: ActionType(
        names.UNPREPARE_RESOURCES,
        key=lambda _: CLAIMS_KEY,
        summary=lambda _: "unprepare resource claims",
        within=timedelta(minutes=5),  # as above
    ),
    ReadImages: ActionType(
        names.READ_IMAGES,
        key=lambda _: "images",
        summary=lambda asked: f"look for {len(asked.images)} image{'' if len(asked.images) == 1 else 's'}",
        within=timedelta(minutes=2),
        result=ImagesPresent,
        at_once=timedelta(seconds=1),  # images that are present then need no activity
        holds_reread=True,
    ),
    PullImage: ActionType(
        names.PULL_IMAGE,
        key=pull_key,
        summary=lambda asked: f"pull {asked.image} ({asked.policy})",
        within=timedelta(hours=24),  # a pull ends by the runtime's own progress deadline, not by its size
        result=PulledImage,
    ),
    StartContainer: ActionType(
        names.START_CONTAINER,
        key=lambda asked: container_key(asked.container["name"]),
        summary=lambda asked: f"start {asked.container['name']}" + (f", restart {asked.attempt}" * bool(asked.attempt)),
        within=timedelta(minutes=5),
        result=RuntimeContainer,
        holds_reread=True,
    ),
    RunHook: ActionType(
        names.RUN_HOOK,
        key=run_hook_key,
        summary=lambda asked: (
            f"{asked.hook} of {asked.name}" + (f": {asked.reason}" if asked.reason else "") + hook_tries(asked)
        ),
        within=timedelta(days=365),  # Kubernetes limits no postStart hook; a preStop hook ends with its grace period
        result=HookEnded,
        own_retry=hook_retry,
    ),
    StopContainer: ActionType(
        names.STOP_CONTAINER,
        key=lambda asked: container_key(asked.name),
        summary=lambda asked: f"stop {asked.name}, grace {asked.grace.total_seconds():g} s: {asked.reason}",
        within=timedelta(minutes=5),
        result=RuntimeContainer,
        extra_time=lambda asked: asked.grace,
        holds_reread=True,
    ),
    ShortenStop: ActionType(
        names.SHORTEN_STOP,
        key=shorten_stop_key,
        summary=lambda asked: f"stop {asked.name} sooner, grace {asked.grace.total_seconds():g} s: {asked.reason}",
        within=timedelta(minutes=5),
        result=RuntimeContainer,
        extra_time=lambda asked: asked.grace,
        holds_reread=True,
    ),
    ProbeContainer: ActionType(
        names.PROBE_CONTAINER,
        key=lambda asked: probe_key(asked.name),
        summary=lambda asked: f"probe {asked.name}: {', '.join(probe_kinds(asked))}",
        within=timedelta(days=365),  # as long as the container
        heartbeat=None,  # each one costs Temporal a write; `worker/host/temporal/lost_attempts.py` finds an attempt that is lost
        retry=PROBING,
        endless=True,
    ),
    RemoveContainer: ActionType(
        names.REMOVE_CONTAINER,
        key=lambda asked: f"remove-container/{asked.container_id}",
        summary=lambda asked: f"remove dead {asked.name}",
        within=timedelta(minutes=5),
        holds_reread=True,
    ),
    ReadPodRuntime: ActionType(
        names.READ_POD_RUNTIME,
        key=lambda _: "runtime",
        summary=lambda _: "read the runtime",
        within=timedelta(minutes=2),
        result=PodRuntime,
        at_once=timedelta(seconds=1),  # what follows a container's end is then decided a workflow task (20 ms) sooner
    ),
    UpdatePodSandboxResources: ActionType(
        names.UPDATE_POD_SANDBOX_RESOURCES,
        key=lambda _: RESOURCES_KEY,
        summary=lambda asked: f"resize: {'raise' if asked.growing else 'lower'} what the pod has",
        within=timedelta(minutes=3),
    ),
    UpdateContainerResources: ActionType(
        names.UPDATE_CONTAINER_RESOURCES,
        key=lambda asked: f"{RESOURCES_KEY}/{asked.name}",
        summary=lambda asked: f"resize {asked.name}",
        within=timedelta(minutes=3),
        result=RuntimeResources,
    ),
}
"""One row for each type of action."""


def key(action: Action) -> str:
    """Return an action's key, which is also its activity's id."""
    return ACTIONS[type(action)].key(action)


def holds_reread(action: Action) -> bool:
    """Report whether the runtime is re-read only when this action has ended."""
    return ACTIONS[type(action)].holds_reread


def is_endless(action: Action) -> bool:
    """Report whether an action runs as long as what it is about."""
    return ACTIONS[type(action)].endless
