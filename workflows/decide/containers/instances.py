"""Records what is known of a container's instances: a new one came up, one was seen, one ended.

Called by `fold` for the answers of actions and by `reread` for what the runtime reports. A recorded fact is never
overwritten by a guess: an exit that is known stays, whatever is read later.
"""

from typing import Final

from proto.temporal.activities.requests import RunHook, RuntimeContainer, StartContainer
from proto.temporal.failure_types import CONTAINER_ENDED
from proto.temporal.hooks import Hook, HookEnded, HookOutcome
from proto.temporal.pod import ContainerFacts, ContainerState, Exit, Failure, Observed
from workflows.decide.containers.backoff import next_backoff
from workflows.decide.containers.definitions import definition_seen
from workflows.decide.containers.init_containers import ends_by_itself
from workflows.decide.keys import container_key, image_key, probe_key
from workflows.decide.situation import Situation

UNKNOWN_EXIT: Final = 137
UNKNOWN_REASON: Final = "ContainerStatusUnknown"
UNKNOWN_MESSAGE: Final = "The container could not be located when the pod was terminated"
"""pkg/kubelet/kubelet_pods.go convertToAPIContainerStatuses."""
PRE_START_FAILED: Final = "PreStartHookError"
"""The same for a preStart hook."""
POST_START_FAILED: Final = "PostStartHookError"
"""The reason of a waiting container whose postStart hook failed (kuberuntime_container.go ErrPostStartHook)."""


def instance_started(situation: Situation, action: StartContainer, seen: RuntimeContainer) -> None:
    """Record the answer of a start; an unexpected attempt means that the runtime knows more."""
    observed = situation.observed
    facts = observed.containers.setdefault(action.container["name"], ContainerFacts())
    if facts.container_id != seen.container_id:
        new_instance(situation, facts, seen)
    instance_seen(situation, facts, seen)
    observed.runtime_stale = observed.runtime_stale or seen.attempt != action.attempt


def new_instance(situation: Situation, facts: ContainerFacts, seen: RuntimeContainer) -> None:
    """Make an instance the newest. The previous one is dead, and its end adds to the back-off."""
    observed = situation.observed
    if facts.container_id:
        remember_dead(observed, seen.name, facts, seen.sandbox_id)
        facts.last_exit = facts.exit or facts.last_exit
    if facts.exit:
        maximum = situation.settings.max_container_restart_period
        earned = next_backoff(facts, seen.created_at or situation.now, maximum)
        facts.backoff, facts.backoff_at = earned.delay, earned.since
    facts.container_id, facts.sandbox_id, facts.attempt = seen.container_id, seen.sandbox_id, seen.attempt
    facts.exit, facts.state, facts.stop_reason = None, None, ""
    facts.skipped_at, facts.probes = None, {}
    facts.post_start = facts.pre_stop = None
    facts.resources = None
    facts.created_at = facts.started_at = None
    facts.hash, facts.outdated = "", False
    facts.stop_signal, facts.user = "", None
    facts.failure_reason = facts.failure_message = ""
    facts.failed_at = None
    observed.failures.pop(container_key(seen.name), None)
    probing = observed.failures.get(probe_key(seen.name))
    if probing and probing.reason == CONTAINER_ENDED:
        del observed.failures[probe_key(seen.name)]


def remember_dead(observed: Observed, name: str, facts: ContainerFacts, sandbox_id: str) -> None:
    """Remember a dead instance so that it is removed later; the instances of a lost sandbox go with the sandbox."""
    dead = observed.dead_containers.get(name, ())
    if facts.sandbox_id == sandbox_id and facts.container_id not in dead:
        observed.dead_containers[name] = (*dead, facts.container_id)


def instance_seen(situation: Situation, facts: ContainerFacts, seen: RuntimeContainer) -> None:
    """Record the state of the newest instance."""
    facts.image = seen.image or facts.image
    facts.image_ref = seen.image_ref or facts.image_ref
    facts.stop_signal = seen.stop_signal or facts.stop_signal
    facts.user = seen.user or facts.user
    facts.created_at = seen.created_at or facts.created_at
    facts.started_at = seen.started_at or facts.started_at
    if facts.exit is not None:
        return
    facts.state, facts.hash = seen.state, seen.hash or facts.hash
    definition_seen(situation, seen.name, facts)
    if seen.state is ContainerState.EXITED:
        code = UNKNOWN_EXIT if seen.exit_code is None else seen.exit_code
        reason = seen.reason or reason_of(seen.exit_code)
        ended_at = seen.finished_at or situation.now
        ended(
            situation, seen.name, facts, Exit(seen.container_id, code, reason, seen.message, facts.started_at, ended_at)
        )


def reason_of(exit_code: int | None) -> str:
    """Return the kubelet's reason for an exit code where the runtime gives none."""
    match exit_code:
        case None:
            return UNKNOWN_REASON
        case 0:
            return "Completed"
        case _:
            return "Error"


def ended(situation: Situation, name: str, facts: ContainerFacts, end: Exit) -> None:
    """Record how an instance ended, and what follows from it."""
    facts.exit, facts.state = end, ContainerState.EXITED
    for one in situation.all_containers:
        if one.name != name:
            continue
        if ends_by_itself(situation, name) and end.exit_code == 0:
            facts.done_in_sandbox = facts.sandbox_id
        for image, policy in situation.images_needed(one):
            if policy == "Always" and not facts.outdated:  # the image it was stopped for has been pulled by now
                forget_image(situation.observed, image, policy)


def container_stopped(situation: Situation, name: str, reason: str, seen: RuntimeContainer | None) -> None:
    """Record that the workflow stopped a container, and the end that the runtime reports."""
    facts = situation.observed.containers.get(name)
    if facts is None or facts.exit is not None:
        return
    facts.stop_reason = reason
    if seen is not None:
        instance_seen(situation, facts, seen)
    if facts.exit is None:
        vanished(situation, name, facts)


def hook_ended(situation: Situation, hook: RunHook, how: HookEnded) -> None:
    """Record how a hook of the newest instance ended; if its postStart hook failed, the start has failed."""
    if hook.hook is Hook.PRE_START:
        pre_start_ended(situation, hook, how)
        return
    facts = situation.observed.containers.get(hook.name)
    if facts is None or facts.container_id != hook.container_id:
        return
    end = HookOutcome(hook.container_id, how.succeeded, how.message, hook.asked_at, situation.now)
    if hook.hook is Hook.PRE_STOP:
        facts.pre_stop = end
        return
    if hook.hook is Hook.POST_STOP:
        facts.post_stop = end
        return
    facts.post_start = end
    if not how.succeeded:
        facts.failure_reason, facts.failure_message, facts.failed_at = POST_START_FAILED, how.message, situation.now


def pre_start_ended(situation: Situation, hook: RunHook, how: HookEnded) -> None:
    """Record how a preStart hook ended; if it failed, the start has failed and is retried."""
    observed, name = situation.observed, hook.name
    if hook.sandbox_id != situation.sandbox_id:
        return
    facts = observed.containers.setdefault(name, ContainerFacts(attempt=hook.attempt))
    facts.pre_start = HookOutcome(
        "", how.succeeded, how.message, ended_at=situation.now, sandbox_id=hook.sandbox_id, attempt=hook.attempt
    )
    if not how.succeeded:
        facts.failure_reason, facts.failure_message, facts.failed_at = PRE_START_FAILED, how.message, situation.now
        before = observed.failures.get(container_key(name))
        tries = before.tries + 1 if before else 1
        observed.failures[container_key(name)] = Failure(PRE_START_FAILED, how.message, situation.now, tries)


def vanished(situation: Situation, name: str, facts: ContainerFacts) -> None:
    """Record the end of a container that the runtime no longer holds."""
    end = Exit(facts.container_id, UNKNOWN_EXIT, UNKNOWN_REASON, UNKNOWN_MESSAGE, facts.started_at, situation.now)
    ended(situation, name, facts, end)


def forget_image(observed: Observed, image: str, policy: str) -> None:
    """Look for the image again before the next start."""
    known = observed.images.get(image_key(image, policy))
    if known:
        known.pulled = False
