"""When a container's postStart and preStop hooks run (kuberuntime_container.go startContainer, killContainer).

A hook belongs to one instance. It runs until its outcome is recorded in `Observed`, so a worker that dies neither skips
nor repeats it. A hook with an unknown outcome runs again: Kubernetes guarantees delivery at least once.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from kubernetes.client.models.v1_container import V1Container

from proto.temporal.activities.requests import RunHook, StopContainer
from proto.temporal.hooks import Hook, HookOutcome
from proto.temporal.pod import ContainerState, Lifecycle
from workflows.decide.actions import Action, Wake, key
from workflows.decide.ending.grace import Grace, pod_grace, stop_request
from workflows.decide.keys import hook_key
from workflows.decide.manifest import hook_terms
from workflows.decide.situation import Situation, unless_backing_off
from workflows.decide.slices import hook_slice
from workflows.decide.versions import HOOKS_AS_FIRST_TAKEN

LEFT_AFTER_HOOK: Final = timedelta(seconds=2)
"""kuberuntime_manager.go minimumGracePeriodInSeconds."""
FAILED_POST_START: Final = "FailedPostStartHook"
FAILED_PRE_STOP: Final = "FailedPreStopHook"
"""pkg/kubelet/events/event.go."""
FAILED: Final = {
    Hook.POST_START: FAILED_POST_START,
    Hook.PRE_STOP: FAILED_PRE_STOP,
    Hook.PRE_START: "FailedPreStartHook",
    Hook.POST_STOP: "FailedPostStopHook",
}
"""The reason that reports a failed hook, by hook."""
MAY_RUN: Final = (ContainerState.RUNNING, ContainerState.UNKNOWN)


def terms(situation: Situation, name: str, hook: Hook) -> hook_terms.HookTerms | None:
    """Return what the pod's annotations say about a hook; on a pod of the API, none may name an image."""
    said = hook_terms.terms(situation.source, name, hook)
    if said and said.image and situation.from_api and situation.behaviour >= HOOKS_AS_FIRST_TAKEN:
        return None
    return said


def has_hook(container: V1Container, hook: Hook) -> bool:
    """Report whether the spec gives the container this hook."""
    given = container.lifecycle
    if given is None:
        return False
    return (given.post_start if hook is Hook.POST_START else given.pre_stop) is not None


def has_pre_stop(situation: Situation, name: str) -> bool:
    """Report whether the container of this name has a preStop hook."""
    return any(one.name == name and has_hook(one, Hook.PRE_STOP) for one in situation.all_containers)


def outcome(situation: Situation, name: str, hook: Hook) -> HookOutcome | None:
    """Return how a hook of the newest instance ended, if it has."""
    facts = situation.facts(name)
    known = facts.post_start if hook is Hook.POST_START else facts.pre_stop
    return known if known and known.container_id == facts.container_id else None


def is_past_post_start(situation: Situation, container: V1Container) -> bool:
    """Report whether a running container has no postStart hook, or that has succeeded."""
    if not has_hook(container, Hook.POST_START):
        return True
    ended = outcome(situation, container.name, Hook.POST_START)
    return ended is not None and ended.succeeded


def is_starting(situation: Situation, container: V1Container) -> bool:
    """Report whether a running container still counts as starting, because its postStart hook has not succeeded."""
    facts = situation.facts(container.name)
    runs = facts.state is ContainerState.RUNNING and facts.exit is None
    wanted = situation.observed.lifecycle is Lifecycle.SYNC
    return runs and wanted and not is_past_post_start(situation, container)


def after_start(situation: Situation, container: V1Container) -> Iterator[Action | Wake]:
    """Run the postStart hook of a container that is up; if the hook failed, stop the container."""
    ended = outcome(situation, container.name, Hook.POST_START)
    if ended is None:
        yield from unless_backing_off(situation, run_hook(situation, container.name, Hook.POST_START))
    elif not ended.succeeded:
        grace = Grace(pod_grace(situation.spec, None), ended.ended_at or situation.now)
        reason = f"{FAILED_POST_START}: {ended.message}"
        yield from stop(situation, stop_request(situation, container.name, reason, grace))


def stop(situation: Situation, asked: StopContainer, *, in_turn: bool = True) -> Iterator[Action | Wake]:
    """Stop a container after its preStop hook; both share a grace period, of which the stop gets at least 2 s.

    A container whose turn has not come has its hook run, but is not stopped.
    """
    if not has_pre_stop(situation, asked.name) or situation.facts(asked.name).state not in MAY_RUN:
        yield from unless_backing_off(situation, asked) if in_turn else ()
        return
    ended = outcome(situation, asked.name, Hook.PRE_STOP)
    if ended is None:
        hook = pre_stop(situation, asked)
        running = situation.busy.get(key(hook))
        if not isinstance(running, RunHook):
            if not is_busy_with(situation, asked.name, Hook.POST_START):
                yield from unless_backing_off(situation, hook)
            return
        left = asked.asked_at + asked.grace
        if not ends_before(left, running):
            return
        if left > situation.now:
            yield Wake(left, f"the shorter grace of {asked.name} ends at {left:%H:%M:%S}", key(asked))
            return
    elif ended.asked_at and situation.observed.lifecycle is Lifecycle.SYNC:
        asked = replace(asked, asked_at=ended.asked_at)
    if in_turn:
        yield from unless_backing_off(situation, replace(asked, at_least=LEFT_AFTER_HOOK))


def is_busy_with(situation: Situation, name: str, hook: Hook) -> bool:
    """Report whether such a hook of a container is under way."""
    return situation.is_busy(f"{hook_key(name, hook)}/")


def ends_before(left: datetime, running: RunHook) -> bool:
    """Report whether a hook under way was given more time than the stop has now, because the grace period was shortened."""
    return running.asked_at is not None and running.grace is not None and left < running.asked_at + running.grace


def pre_stop(situation: Situation, asked: StopContainer) -> RunHook:
    """Return the request of the preStop hook before a stop."""
    hook = run_hook(situation, asked.name, Hook.PRE_STOP)
    return replace(hook, asked_at=asked.asked_at, grace=asked.grace, reason=asked.reason)


def run_hook(situation: Situation, name: str, hook: Hook) -> RunHook:
    """Return the request of a hook of the newest instance."""
    said = terms(situation, name, hook) or hook_terms.HookTerms()
    handler, ports = hook_slice(situation.source, name, hook, said.handler)
    sandbox = situation.observed.sandbox
    ips = sandbox.ips if sandbox and not situation.spec.host_network else ()
    return RunHook(
        pod=situation.key,
        name=name,
        container_id=situation.facts(name).container_id,
        hook=hook,
        handler=handler,
        ports=ports,
        ips=ips or situation.settings.host_ips,
        timeout=said.timeout,
        retry=said.retry,
        sandbox_id=situation.sandbox_id if hook in hook_terms.OWN_HOOKS else "",
    )


def abandoned(situation: Situation) -> list[str]:
    """List the keys of postStart and preStop hooks under way whose result no longer matters.

    Their container has ended, or the pod of a postStart hook is terminating: the kubelet cancels its sync then
    (pkg/kubelet/pod_workers.go).
    """
    terminating = situation.observed.lifecycle is not Lifecycle.SYNC
    return [
        name
        for name, action in situation.busy.items()
        if isinstance(action, RunHook)
        and action.hook not in hook_terms.OWN_HOOKS
        and (not is_up(situation, action) or (terminating and action.hook is Hook.POST_START))
    ]


def is_up(situation: Situation, hook: RunHook) -> bool:
    """Report whether the instance that a hook is for is still the newest and has not ended."""
    facts = situation.facts(hook.name)
    return facts.container_id == hook.container_id and facts.exit is None
