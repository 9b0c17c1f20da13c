"""How the answer of an action changes `Observed`: one row for each type of action.

`containers/instances.py` records what an answer says about a container, `reread` what a re-read says about everything.
Signals are in `signals`.
"""

from collections.abc import Mapping
from datetime import timedelta

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
from proto.temporal.failure_types import CONFIG_ERROR, CONTAINER_ENDED, PREDECESSOR_PRESENT
from proto.temporal.hooks import HookEnded
from proto.temporal.images import ImageFacts
from proto.temporal.pod import ContainerFacts, Failure, Lifecycle, Observed, Sandbox
from proto.temporal.pod_inputs import Rejected
from proto.temporal.resources import RuntimeResources
from workflows.decide.actions import Action, is_endless, key
from workflows.decide.containers import backoff
from workflows.decide.containers.instances import container_stopped, forget_image, hook_ended, instance_started
from workflows.decide.containers.restart_all import removed
from workflows.decide.keys import image_key
from workflows.decide.lifecycle import admission
from workflows.decide.record.reread import runtime_read
from workflows.decide.resources import allocation
from workflows.decide.situation import Situation, look_for_starts
from workflows.decide.steps.claims import resources_prepared, resources_unprepared
from workflows.decide.steps.resize import cgroup_updated, container_updated
from workflows.decide.steps.volumes import volumes_mounted, volumes_unmounted
from workflows.decide.versions import LOOKS_FOR_STARTS

Answer = (
    PodSandbox
    | ImagesPresent
    | PulledImage
    | MountedVolumes
    | RuntimeContainer
    | HookEnded
    | PodRuntime
    | RuntimeResources
    | PreparedResources
    | None
)


def fold(situation: Situation, action: Action, answer: Answer) -> None:  # noqa: C901, PLR0912 - a table, one row per kind
    """Record an action's answer; the end of probing says nothing, its verdicts came as signals."""
    observed = situation.observed
    observed.failures.pop(key(action), None)
    match action, answer:
        case MakePodDirectories(), _:
            observed.directories = True
        case AwaitPredecessor(), _:
            observed.waiting_for = ""
            observed.started_at = situation.now  # it was not active until now, so its deadline counts from here
        case ReadImages(), ImagesPresent(image_refs=image_refs):
            images_read(situation, action, image_refs)
        case MountVolumes(), MountedVolumes() as mounted:
            volumes_mounted(situation, action, mounted)
        case UnmountVolumes(), _:
            volumes_unmounted(situation)
        case PrepareResources(), _:
            resources_prepared(situation, action)
        case UnprepareResources(), _:
            resources_unprepared(situation)
        case PullImage(image=image, policy=policy), PulledImage(image_ref=image_ref):
            observed.images[image_key(image, policy)] = ImageFacts(image_ref=image_ref, pulled=True)
        case RunPodSandbox(), PodSandbox() as made:
            sandbox_made(observed, action, made)
            allocation.cgroup_given(situation, action.sandbox_spec)
        case StopPodSandbox(sandbox_id=sandbox_id), _:
            sandbox_stopped(observed, sandbox_id)
        case RemovePodSandbox(sandbox_id=sandbox_id), _:
            sandbox_removed(observed, sandbox_id)
        case StartContainer(), RuntimeContainer() as seen:
            instance_started(situation, action, seen)
            allocation.container_given(situation, seen.name, action.container.get("resources") or {})
        case RunHook(), HookEnded() as how:
            hook_ended(situation, action, how)
        case StopContainer(name=name, reason=reason) | ShortenStop(name=name, reason=reason), _:
            container_stopped(situation, name, reason, answer if isinstance(answer, RuntimeContainer) else None)
        case RemoveContainer(name=name, container_id=container_id), _:
            container_removed(situation, name, container_id)
        case RemovePodDirectories(), _:
            observed.cleaned = True
        case DeletePodObject(), _:
            observed.object_deleted = True
        case ReadPodRuntime(), PodRuntime() as seen_all:
            runtime_read(situation, seen_all)
        case UpdatePodSandboxResources(), _:
            cgroup_updated(situation, action)
        case UpdateContainerResources(), RuntimeResources() as given:
            container_updated(situation, action, given)
    allocation.settle(situation)


def container_removed(situation: Situation, name: str, container_id: str) -> None:
    """Record that the runtime no longer holds a dead instance."""
    dead = situation.observed.dead_containers
    dead[name] = tuple(one for one in dead.get(name, ()) if one != container_id)
    removed(situation, name, container_id)


def fold_failure(situation: Situation, action: Action, reason: str, message: str) -> None:  # noqa: C901 - a table too
    """Record why an action failed; the retry delay follows from it."""
    observed, now = situation.observed, situation.now
    before = observed.failures.get(key(action))
    observed.failures[key(action)] = Failure(reason, message, now, tries=before.tries + 1 if before else 1)
    match action:
        case ReadImages():
            observed.failures.pop(key(action))
            images_read(situation, action, {})  # the pull that follows reports what is wrong
        case PullImage(image=image, policy=policy):
            name = image_key(image, policy)
            observed.images[name] = ImageFacts(
                reason=reason, message=message, backoff=image_delay(situation, name, reason), failed_at=now
            )
        case RunPodSandbox() if reason == PREDECESSOR_PRESENT:
            observed.failures.pop(key(action))
            observed.waiting_for = message
        case RunPodSandbox() if admission.rejected_by_runtime(situation, action, reason):
            admission.reject(observed, Rejected(reason, message), now)
        case MountVolumes() if admission.rejected_by_volumes(situation, action, reason):
            admission.reject(observed, Rejected(reason, message), now)
        case StartContainer(container=container):
            facts = observed.containers.setdefault(container["name"], ContainerFacts(attempt=action.attempt))
            facts.failure_reason, facts.failure_message, facts.failed_at = reason, message, now
            forget_image(observed, container["image"], container.get("imagePullPolicy", "IfNotPresent"))
            allocation.start_failed(situation, action)
        case RunHook():
            observed.failures.pop(key(action))
            hook_ended(situation, action, HookEnded(succeeded=False, message=f"{reason}: {message}"))
        case RemovePodDirectories():
            observed.runtime_stale = True
        case ProbeContainer() if reason == CONTAINER_ENDED:
            observed.runtime_stale = True
        case UpdatePodSandboxResources(sandbox_spec=spec):
            allocation.cgroup_in_doubt(situation, spec)
        case UpdateContainerResources(name=name):
            allocation.container_in_doubt(situation, name)
    look_for_half_finished(situation, action, reason)


def look_for_half_finished(situation: Situation, action: Action, reason: str) -> None:
    """Re-read the runtime for what a failed action may have done.

    A terminating pod undoes all of it. Else only a start is looked for: its container may live beside what is decided
    without it. With CONFIG_ERROR it has found nothing and created nothing.
    """
    observed = situation.observed
    if is_terminating(observed) and not is_endless(action):
        observed.runtime_stale = True
        observed.starts_in_doubt = observed.starts_in_doubt or isinstance(action, StartContainer)
    elif isinstance(action, StartContainer) and reason != CONFIG_ERROR and situation.behaviour >= LOOKS_FOR_STARTS:
        look_for_starts(observed)


def is_terminating(observed: Observed) -> bool:
    """Report whether the pod terminates or is about to; a deletion may have come in the same task as this answer."""
    return observed.lifecycle is not Lifecycle.SYNC or bool(observed.deletion or observed.eviction or observed.ended)


def images_read(situation: Situation, action: ReadImages, image_refs: Mapping[str, str]) -> None:
    """Record which of the images are present, and that the others were looked for."""
    for container in situation.all_containers:
        for image, policy in situation.images_needed(container):
            if image in action.images and policy != "Always" and not situation.image_of((image, policy)).pulled:
                ref = image_refs.get(image, "")
                situation.observed.images[image_key(image, policy)] = ImageFacts(image_ref=ref, pulled=bool(ref))


def image_delay(situation: Situation, name: str, reason: str) -> timedelta:
    """Return how long a failed pull waits; a failure before the registry was reached does not extend the back-off."""
    known = situation.observed.images.get(name) or ImageFacts()
    previous = None if reason in backoff.NOT_PULLED else known.backoff
    return backoff.next_image_delay(
        previous, situation.settings.image_backoff_initial, situation.settings.image_backoff_max
    )


def sandbox_made(observed: Observed, action: RunPodSandbox, made: PodSandbox) -> None:
    """Make a ready sandbox the pod's own; the one before it is to be removed.

    If it was adopted, or if the attempt differs, the runtime knows more of this pod: it is re-read.
    """
    observed.runtime_stale = observed.runtime_stale or made.adopted or made.attempt != action.attempt
    if observed.sandbox and observed.sandbox.sandbox_id != made.sandbox_id:
        observed.old_sandboxes = (*observed.old_sandboxes, observed.sandbox.sandbox_id)
    observed.sandbox = Sandbox(made.sandbox_id, made.attempt, ready=True, ips=made.ips, created_at=made.created_at)
    observed.next_sandbox_attempt = made.attempt + 1
    observed.directories = observed.directories or bool(action.containers)


def sandbox_stopped(observed: Observed, sandbox_id: str) -> None:
    """Record that a sandbox is stopped; a lost one is only waiting to be removed."""
    sandbox = observed.sandbox
    if sandbox and sandbox.sandbox_id == sandbox_id:
        sandbox.ready, sandbox.stopped = False, True


def sandbox_removed(observed: Observed, sandbox_id: str) -> None:
    """Record that a sandbox and all its containers are gone."""
    observed.old_sandboxes = tuple(one for one in observed.old_sandboxes if one != sandbox_id)
    if observed.sandbox and observed.sandbox.sandbox_id == sandbox_id:
        observed.sandbox = None
