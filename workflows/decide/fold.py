"""How what came back changes what is known: the only place that writes `Observed` besides the signals.

A fact once written is never overwritten by a guess (design §4.1): an exit that is known stays, an instance older than the
known one is ignored, and a container that the runtime has forgotten counts as ended, with the kubelet's words for that.
"""

from datetime import datetime
from typing import Final

from proto.temporal.pod import (
    ContainerFacts,
    ContainerState,
    Exit,
    Failure,
    ImageFacts,
    Lifecycle,
    Observed,
    SandboxFacts,
)
from proto.temporal.requests import (
    AwaitPredecessor,
    MakePodDirectories,
    PodRuntime,
    PodSandbox,
    PulledImage,
    PullImage,
    ReadPodRuntime,
    RemoveContainer,
    RemovePodDirectories,
    RemovePodSandbox,
    RunPodSandbox,
    RuntimeContainer,
    StartContainer,
    StopContainer,
    StopPodSandbox,
)
from workflows.decide import backoff
from workflows.decide.actions import Action, image_key, key
from workflows.decide.situation import Situation, image_asked

UNKNOWN_EXIT: Final = 137
UNKNOWN_REASON: Final = "ContainerStatusUnknown"
UNKNOWN_MESSAGE: Final = "The container could not be located when the pod was terminated"
"""pkg/kubelet/kubelet_pods.go convertToAPIContainerStatuses."""

Answer = PodSandbox | PulledImage | RuntimeContainer | PodRuntime | None


def fold(situation: Situation, action: Action, answer: Answer) -> None:  # noqa: C901 - a table, one row a kind
    """Write down what an action came back with."""
    observed = situation.observed
    observed.failures.pop(key(action), None)
    match action, answer:
        case MakePodDirectories(), _:
            observed.directories = True
        case AwaitPredecessor(), _:
            observed.waiting_for = ""
        case PullImage(image=image, policy=policy), PulledImage(image_ref=image_ref):
            observed.images[image_key(image, policy)] = ImageFacts(image_ref=image_ref, pulled=True)
        case RunPodSandbox(), PodSandbox() as made:
            sandbox_made(observed, made)
        case StopPodSandbox(sandbox_id=sandbox_id), _:
            sandbox_stopped(observed, sandbox_id)
        case RemovePodSandbox(sandbox_id=sandbox_id), _:
            sandbox_removed(observed, sandbox_id)
        case StartContainer(), RuntimeContainer() as seen:
            instance_started(situation, action, seen)
        case StopContainer(name=name, reason=reason), _:
            container_stopped(situation, name, reason, answer if isinstance(answer, RuntimeContainer) else None)
        case RemoveContainer(name=name, container_id=container_id), _:
            left = tuple(one for one in observed.dead_containers.get(name, ()) if one != container_id)
            observed.dead_containers[name] = left
        case RemovePodDirectories(), _:
            observed.cleaned = True
        case ReadPodRuntime(), PodRuntime() as seen_all:
            runtime_read(situation, seen_all)


def fold_failure(situation: Situation, action: Action, reason: str, message: str) -> None:
    """Write down why an action failed; who may try again, and when, is decided from it."""
    observed, now = situation.observed, situation.now
    before = observed.failures.get(key(action))
    observed.failures[key(action)] = Failure(reason, message, now, tries=before.tries + 1 if before else 1)
    match action:
        case PullImage(image=image, policy=policy):
            name = image_key(image, policy)
            known = observed.images.get(name) or ImageFacts()
            delay = backoff.next_image_delay(
                known.backoff, situation.settings.image_backoff_initial, situation.settings.image_backoff_max
            )
            observed.images[name] = ImageFacts(reason=reason, message=message, backoff=delay, failed_at=now)
        case RunPodSandbox() if reason == "PredecessorPresent":
            observed.failures.pop(key(action))
            observed.waiting_for = message
        case StartContainer(container=container):
            facts = observed.containers.setdefault(container["name"], ContainerFacts(attempt=action.attempt))
            facts.failure_reason, facts.failure_message, facts.failed_at = reason, message, now
            forget_image(observed, container["image"], container.get("imagePullPolicy", "IfNotPresent"))
        case RemovePodDirectories():
            observed.runtime_stale = True
    if observed.lifecycle is not Lifecycle.SYNC:
        # what was half made when the pod was deleted must be found before it can be undone
        observed.runtime_stale = True


def forget_image(observed: Observed, image: str, policy: str) -> None:
    """Ask for the image again before the next start."""
    known = observed.images.get(image_key(image, policy))
    if known:
        known.pulled = False


def instance_started(situation: Situation, action: StartContainer, seen: RuntimeContainer) -> None:
    """Take over a new instance of a container: its predecessor becomes the last state."""
    observed, now = situation.observed, situation.now
    name = action.container["name"]
    facts = observed.containers.setdefault(name, ContainerFacts())
    if facts.exit:
        ended_at = facts.exit.finished_at or now
        earned = backoff.after_restart(
            backoff.Backoff(facts.backoff, facts.backoff_at),
            ended_at,
            now,
            situation.settings.max_container_restart_period,
        )
        facts.backoff, facts.backoff_at = earned.delay, earned.since
    new_instance(observed, facts, seen)
    instance_seen(situation, facts, seen)


def new_instance(observed: Observed, facts: ContainerFacts, seen: RuntimeContainer) -> None:
    """Make an instance the newest; the one before it is dead and remembered."""
    if facts.container_id and facts.container_id != seen.container_id:
        dead = observed.dead_containers.get(seen.name, ())
        if facts.sandbox_id == seen.sandbox_id and facts.container_id not in dead:
            observed.dead_containers[seen.name] = (*dead, facts.container_id)
        facts.last_exit = facts.exit or facts.last_exit
    if facts.container_id != seen.container_id:
        facts.exit, facts.stop_reason, facts.started_at = None, "", None
    facts.container_id, facts.sandbox_id, facts.attempt = seen.container_id, seen.sandbox_id, seen.attempt
    facts.failure_reason = facts.failure_message = ""
    facts.failed_at = None


def instance_seen(situation: Situation, facts: ContainerFacts, seen: RuntimeContainer) -> None:
    """Write down the state of the newest instance."""
    facts.image = seen.image or facts.image
    facts.image_ref = seen.image_ref or facts.image_ref
    facts.created_at = seen.created_at or facts.created_at
    facts.started_at = seen.started_at or facts.started_at
    if facts.exit is not None:
        return
    facts.state = seen.state
    if seen.state is ContainerState.EXITED:
        code = UNKNOWN_EXIT if seen.exit_code is None else seen.exit_code
        reason = seen.reason or ("Completed" if code == 0 else "Error")
        ended_at = seen.finished_at or situation.now
        ended(
            situation, seen.name, facts, Exit(seen.container_id, code, reason, seen.message, facts.started_at, ended_at)
        )


def ended(situation: Situation, name: str, facts: ContainerFacts, end: Exit) -> None:
    """Write down how an instance ended, and what follows from it."""
    facts.exit, facts.state = end, ContainerState.EXITED
    for one in (*situation.init_containers, *situation.containers):
        if one.name != name:
            continue
        if one in situation.init_containers and end.exit_code == 0:
            facts.done_in_sandbox = facts.sandbox_id
        image, policy = image_asked(one)
        if policy == "Always":
            forget_image(situation.observed, image, policy)


def container_stopped(situation: Situation, name: str, reason: str, seen: RuntimeContainer | None) -> None:
    """Write down that we stopped a container, and the end that the runtime tells of it."""
    facts = situation.observed.containers.get(name)
    if facts is None or facts.exit is not None:
        return
    facts.stop_reason = reason
    if seen is not None:
        instance_seen(situation, facts, seen)
    if facts.exit is None:
        ended(situation, name, facts, unknown_exit(facts, situation.now))


def unknown_exit(facts: ContainerFacts, now: datetime) -> Exit:
    """The end of a container of which nothing is left to ask."""
    return Exit(facts.container_id, UNKNOWN_EXIT, UNKNOWN_REASON, UNKNOWN_MESSAGE, facts.started_at, now)


def sandbox_made(observed: Observed, made: PodSandbox) -> None:
    """Take a ready sandbox as the pod's own; the one before it only waits to be removed."""
    if observed.sandbox and observed.sandbox.sandbox_id != made.sandbox_id:
        observed.old_sandboxes = (*observed.old_sandboxes, observed.sandbox.sandbox_id)
    observed.sandbox = SandboxFacts(made.sandbox_id, made.attempt, ready=True, ips=made.ips, created_at=made.created_at)
    observed.next_sandbox_attempt = made.attempt + 1


def sandbox_stopped(observed: Observed, sandbox_id: str) -> None:
    """Write down that a sandbox is stopped; a lost one only waits to be removed."""
    sandbox = observed.sandbox
    if sandbox and sandbox.sandbox_id == sandbox_id:
        sandbox.ready, sandbox.stopped = False, True


def sandbox_removed(observed: Observed, sandbox_id: str) -> None:
    """Write down that a sandbox and all its containers are gone."""
    observed.old_sandboxes = tuple(one for one in observed.old_sandboxes if one != sandbox_id)
    if observed.sandbox and observed.sandbox.sandbox_id == sandbox_id:
        observed.sandbox = None


def runtime_read(situation: Situation, seen: PodRuntime) -> None:
    """Bring everything that is not under way into line with the runtime."""
    observed = situation.observed
    observed.runtime_stale = False
    sandboxes_read(observed, seen)
    by_name: dict[str, list[RuntimeContainer]] = {}
    for one in seen.containers:
        by_name.setdefault(one.name, []).append(one)
    for container in (*situation.init_containers, *situation.containers):
        instances = sorted(by_name.get(container.name, ()), key=lambda one: one.attempt)
        facts = observed.containers.get(container.name)
        if not instances:
            if facts and facts.container_id and facts.exit is None:
                ended(situation, container.name, facts, unknown_exit(facts, situation.now))
            continue
        newest = instances[-1]
        facts = observed.containers.setdefault(container.name, ContainerFacts())
        if newest.container_id != facts.container_id and newest.attempt >= facts.attempt:
            new_instance(observed, facts, newest)
        if newest.container_id == facts.container_id:
            instance_seen(situation, facts, newest)
        observed.dead_containers[container.name] = tuple(one.container_id for one in instances[:-1])


def sandboxes_read(observed: Observed, seen: PodRuntime) -> None:
    """Take the newest sandbox as the pod's own; all others are old."""
    if not seen.sandboxes:
        if observed.sandbox:
            observed.sandbox.ready, observed.sandbox.stopped = False, True
        return
    newest = max(seen.sandboxes, key=lambda one: one.attempt)
    known = observed.sandbox
    if known is None or newest.sandbox_id != known.sandbox_id:
        observed.sandbox = SandboxFacts(newest.sandbox_id, newest.attempt, ips=newest.ips, created_at=newest.created_at)
    assert observed.sandbox is not None
    observed.sandbox.ready = newest.ready and not observed.sandbox.stopped
    observed.next_sandbox_attempt = max(observed.next_sandbox_attempt, newest.attempt + 1)
    observed.old_sandboxes = tuple(one.sandbox_id for one in seen.sandboxes if one.sandbox_id != newest.sandbox_id)
