"""When a container's lifecycle hooks run, and what waits for them (kuberuntime_container.go startContainer, killContainer).

Asked by `containers` once an instance is up, and by whatever stops a container. A hook belongs to one instance: it runs until
its outcome is written down in `Observed`, so a worker that dies in between neither skips nor repeats it; one whose outcome
nobody knows runs again, as Kubernetes promises no less.
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
"""By hook, the reason that tells its failure."""
MAY_RUN: Final = (ContainerState.RUNNING, ContainerState.UNKNOWN)


def has_hook(container: V1Container, hook: Hook) -> bool:
    """Say whether the spec gives the container this hook."""
    given = container.lifecycle
    if given is None:
        return False
    return (given.post_start if hook is Hook.POST_START else given.pre_stop) is not None


def has_pre_stop(situation: Situation, name: str) -> bool:
    """Say whether the container of this name has a preStop hook."""
    return any(one.name == name and has_hook(one, Hook.PRE_STOP) for one in situation.all_containers)


def outcome(situation: Situation, name: str, hook: Hook) -> HookOutcome | None:
    """Say how the newest instance's hook ended, if it has."""
    facts = situation.facts(name)
    known = facts.post_start if hook is Hook.POST_START else facts.pre_stop
    return known if known and known.container_id == facts.container_id else None


def is_past_post_start(situation: Situation, container: V1Container) -> bool:
    """Say whether nothing of a running container's start is left to do: it has no postStart hook, or that went well."""
    if not has_hook(container, Hook.POST_START):
        return True
    ended = outcome(situation, container.name, Hook.POST_START)
    return ended is not None and ended.succeeded


def is_starting(situation: Situation, container: V1Container) -> bool:
    """Say whether a container that runs counts as starting still: nothing new is told of it until its hook has ended."""
    facts = situation.facts(container.name)
    runs = facts.state is ContainerState.RUNNING and facts.exit is None
    wanted = situation.observed.lifecycle is Lifecycle.SYNC
    return runs and wanted and not is_past_post_start(situation, container)


def after_start(situation: Situation, container: V1Container) -> Iterator[Action | Wake]:
    """Run the postStart hook of a container that is up; one whose hook has failed is stopped."""
    ended = outcome(situation, container.name, Hook.POST_START)
    if ended is None:
        yield from unless_backing_off(situation, run_hook(situation, container.name, Hook.POST_START))
    elif not ended.succeeded:
        grace = Grace(pod_grace(situation.spec, None), ended.ended_at or situation.now)
        reason = f"{FAILED_POST_START}: {ended.message}"
        yield from stop(situation, stop_request(situation, container.name, reason, grace))


def stop(situation: Situation, asked: StopContainer, *, in_turn: bool = True) -> Iterator[Action | Wake]:
    """Stop a container, its preStop hook first if it runs; both share a grace, of which the stop gets 2 s at the least.

    One that is not in turn yet has its hook, but no stop.
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
    """Say whether such a hook of a container is under way."""
    return situation.is_busy(f"{hook_key(name, hook)}/")


def ends_before(left: datetime, running: RunHook) -> bool:
    """Say whether a hook under way was given longer than the stop has by now: a later wish has shortened the grace."""
    return running.asked_at is not None and running.grace is not None and left < running.asked_at + running.grace


def pre_stop(situation: Situation, asked: StopContainer) -> RunHook:
    """Write the request of the preStop hook that goes before a stop."""
    hook = run_hook(situation, asked.name, Hook.PRE_STOP)
    return replace(hook, asked_at=asked.asked_at, grace=asked.grace, reason=asked.reason)


def run_hook(situation: Situation, name: str, hook: Hook) -> RunHook:
    """Write the request of a hook of the newest instance."""
    said = hook_terms.terms(situation.source, name, hook) or hook_terms.HookTerms()
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


def given_up(situation: Situation) -> list[str]:
    """Name the keys of Kubernetes' hooks under way that nobody waits for any more.

    Their container has ended, or a postStart hook's pod is not to run any longer: the kubelet cancels its sync then
    (pkg/kubelet/pod_workers.go).
    """
    going = situation.observed.lifecycle is not Lifecycle.SYNC
    return [
        name
        for name, action in situation.busy.items()
        if isinstance(action, RunHook)
        and action.hook not in hook_terms.OWN_HOOKS
        and (not is_up(situation, action) or (going and action.hook is Hook.POST_START))
    ]


def is_up(situation: Situation, hook: RunHook) -> bool:
    """Say whether the instance that a hook is for still is the newest and has not ended."""
    facts = situation.facts(hook.name)
    return facts.container_id == hook.container_id and facts.exit is None
