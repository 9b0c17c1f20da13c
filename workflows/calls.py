"""The one table of activity calls: names, types, time limits, retries and what the Temporal UI shows of each.

Limits are chosen for the day a worker dies (design §4.7): whatever may last over a second heartbeats every few seconds, and
every deadline inside an activity is shorter than the limit here. Only what Kubernetes itself would try again in silence is
retried by Temporal (the runtime is away); every other failure comes back as a fact that `decide/` judges.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from temporalio.common import RetryPolicy

from proto.temporal import hooks, names, node
from proto.temporal.activities import requests, resize, volumes
from proto.temporal.pod import PodJson, ProbeKind
from proto.temporal.resources import RuntimeResources
from workflows.decide.actions import Action

ONCE: Final = RetryPolicy(maximum_attempts=1)
"""For a read at once: what does not answer then is asked patiently, as an activity that the UI shows."""

PATIENT: Final = RetryPolicy(
    initial_interval=timedelta(milliseconds=200), backoff_coefficient=2, maximum_interval=timedelta(seconds=5)
)
"""For as long as it takes: pods keep their state while the runtime is away, and go on by themselves."""

PROBING: Final = RetryPolicy(
    initial_interval=timedelta(milliseconds=50), backoff_coefficient=2, maximum_interval=timedelta(seconds=5)
)
"""A new worker goes on at once where the one before it was killed (design §4.7)."""

FEW: Final = 3
"""So many volumes are named in a summary."""

BEAT: Final = timedelta(seconds=30)
"""How long a silent activity counts as alive.

A worker that dies is not waited for (the next one takes over at once), so this bounds a step that was lost otherwise. It
heartbeats thrice in that time: at 10 s, the waiting steps of a 110-pod start were a fifth of all that Temporal had to do.
"""


@dataclass(frozen=True, slots=True)
class Call:
    """How one kind of action is called."""

    name: str
    result: type | None
    within: timedelta
    summary: Callable[[Any], str]
    heartbeat: timedelta | None = BEAT
    retry: RetryPolicy = field(default_factory=lambda: PATIENT)
    at_once: timedelta | None = None
    """A read that is first tried inside the workflow task, as a local activity, for this long."""


def probes_of(asked: requests.ProbeContainer) -> list[str]:
    """Name the probes that a request is about."""
    return [kind.value for kind in ProbeKind if asked.container.get(kind.field)]


def tries(asked: requests.RunHook) -> str:
    """Say how often a hook may be tried, where that is more than once."""
    return f" (at most {asked.retry.max_attempts} tries)" if asked.retry else ""


def counted(asked: Sequence[PodJson]) -> str:
    """Name the volumes, while they are few."""
    known = [str(one["name"]) for one in asked]
    return f"{len(known)} volumes" if len(known) > FEW else f"volume{'s' * (len(known) > 1)} {', '.join(known)}"


CALLS: Final[dict[type, Call]] = {
    requests.MakePodDirectories: Call(
        names.MAKE_POD_DIRECTORIES, None, timedelta(minutes=1), lambda _: "make directories", heartbeat=None
    ),
    requests.RemovePodDirectories: Call(
        names.REMOVE_POD_DIRECTORIES, None, timedelta(minutes=10), lambda _: "remove directories, logs and cgroup"
    ),
    requests.DeletePodObject: Call(
        names.DELETE_POD_OBJECT,
        None,
        timedelta(minutes=2),
        lambda asked: f"delete the pod's object, which ends {asked.status.get('phase', '')}",
    ),
    requests.AwaitPredecessor: Call(
        names.AWAIT_PREDECESSOR, None, timedelta(days=365), lambda asked: f"wait until no other {asked.pod} is left"
    ),
    requests.RunPodSandbox: Call(
        names.RUN_POD_SANDBOX,
        requests.PodSandbox,
        timedelta(minutes=5),
        lambda asked: f"run sandbox, attempt {asked.attempt}",
    ),
    requests.StopPodSandbox: Call(
        names.STOP_POD_SANDBOX, None, timedelta(minutes=5), lambda asked: f"stop sandbox {asked.sandbox_id[:12]}"
    ),
    requests.RemovePodSandbox: Call(
        names.REMOVE_POD_SANDBOX, None, timedelta(minutes=5), lambda asked: f"remove sandbox {asked.sandbox_id[:12]}"
    ),
    volumes.MountVolumes: Call(
        names.MOUNT_VOLUMES,
        volumes.MountedVolumes,
        timedelta(hours=24),  # millions of files may have to be given to a group; what hangs is given up with its pod
        lambda asked: f"{'mount' if asked.refresh is None else 'refresh'} {counted(asked.volumes)}",
    ),
    volumes.UnmountVolumes: Call(
        names.UNMOUNT_VOLUMES,
        None,
        timedelta(hours=24),  # as many may have to be removed
        lambda asked: f"unmount {counted(asked.volumes)}",
    ),
    requests.ReadImages: Call(
        names.READ_IMAGES,
        requests.ImagesPresent,
        timedelta(minutes=2),
        lambda asked: f"look for {len(asked.images)} image{'' if len(asked.images) == 1 else 's'}",
        at_once=timedelta(seconds=1),  # what is there then costs no activity of its own
    ),
    requests.PullImage: Call(
        names.PULL_IMAGE,
        requests.PulledImage,
        timedelta(hours=24),  # a pull ends by the runtime's own progress deadline, not by its size
        lambda asked: f"pull {asked.image} ({asked.policy})",
    ),
    requests.StartContainer: Call(
        names.START_CONTAINER,
        requests.RuntimeContainer,
        timedelta(minutes=5),
        lambda asked: f"start {asked.container['name']}" + (f", restart {asked.attempt}" if asked.attempt else ""),
    ),
    requests.RunHook: Call(
        names.RUN_HOOK,
        hooks.HookEnded,
        timedelta(days=365),  # Kubernetes sets a postStart hook no time; a preStop hook ends itself with its grace
        lambda asked: f"{asked.hook} of {asked.name}" + (f": {asked.reason}" if asked.reason else "") + tries(asked),
    ),
    requests.StopContainer: Call(
        names.STOP_CONTAINER,
        requests.RuntimeContainer,
        timedelta(minutes=5),
        lambda asked: f"stop {asked.name}, grace {asked.grace.total_seconds():g} s: {asked.reason}",
    ),
    requests.ShortenStop: Call(
        names.SHORTEN_STOP,
        requests.RuntimeContainer,
        timedelta(minutes=5),
        lambda asked: f"stop {asked.name} sooner, grace {asked.grace.total_seconds():g} s: {asked.reason}",
    ),
    requests.ProbeContainer: Call(
        names.PROBE_CONTAINER,
        None,
        timedelta(days=365),  # as long as the container
        lambda asked: f"probe {asked.name}: {', '.join(probes_of(asked))}",
        heartbeat=timedelta(minutes=2),  # 330 of them at 30 s would keep Temporal busy for nothing
        retry=PROBING,
    ),
    requests.RemoveContainer: Call(
        names.REMOVE_CONTAINER, None, timedelta(minutes=5), lambda asked: f"remove dead {asked.name}"
    ),
    requests.ReadPodRuntime: Call(
        names.READ_POD_RUNTIME,
        requests.PodRuntime,
        timedelta(minutes=2),
        lambda _: "read the runtime",
        at_once=timedelta(seconds=1),  # an exit's next step then comes a workflow task and 20 ms sooner
    ),
    resize.UpdatePodSandboxResources: Call(
        names.UPDATE_POD_SANDBOX_RESOURCES,
        None,
        timedelta(minutes=3),
        lambda asked: f"resize: {'raise' if asked.growing else 'lower'} what the pod has",
    ),
    resize.UpdateContainerResources: Call(
        names.UPDATE_CONTAINER_RESOURCES,
        RuntimeResources,
        timedelta(minutes=3),
        lambda asked: f"resize {asked.name}",
    ),
}


NODE_CALLS: Final[dict[type, Call]] = {
    node.WatchImages: Call(
        names.WATCH_IMAGES,
        node.ImageUse,
        timedelta(days=365),
        lambda asked: f"watch the images' disk: room is made from {asked.policy.high_threshold_percent} % on",
        heartbeat=timedelta(minutes=2),  # it lasts as long as nothing is to be done
        retry=PROBING,
    ),
    node.RemoveImage: Call(
        names.REMOVE_IMAGE,
        node.RemovedImage,
        timedelta(minutes=5),
        lambda asked: f"remove {asked.name}: {asked.reason}",
    ),
    node.PrepullImage: Call(
        names.PREPULL_IMAGE, requests.PulledImage, timedelta(hours=24), lambda asked: f"prepull {asked.image}"
    ),
}
"""The node's own workflow's."""


def retry_policy(action: Action) -> RetryPolicy:
    """Say how Temporal tries again; how often a hook may fail before that is its answer it judges itself."""
    if isinstance(action, requests.RunHook) and (retry := action.retry):
        return RetryPolicy(
            initial_interval=retry.initial, backoff_coefficient=retry.factor, maximum_interval=retry.longest
        )
    return CALLS[type(action)].retry


def time_limit(action: Action) -> timedelta:
    """Say how long one try may take; a stop has its grace on top."""
    limit = CALLS[type(action)].within
    return limit + action.grace if isinstance(action, requests.StopContainer | requests.ShortenStop) else limit
