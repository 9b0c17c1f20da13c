"""Hooks that Kubernetes does not have: preStart, before a container starts, and postStop, after it has ended.

A pod asks for them by annotation (`manifest/hook_terms.py`). A preStart hook belongs to an attempt: the container
starts only after the hook has succeeded, and a failed hook is retried like a failed start. A postStop hook belongs to
an instance that has ended: it runs once, and until it has ended the container is not restarted and the sandbox is not
stopped. While the pod terminates it has the rest of the grace period, and at least two seconds from its container's
end.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Final

from proto.temporal.activities.requests import RunHook, StartContainer
from proto.temporal.hooks import Hook, HookOutcome
from proto.temporal.pod import Lifecycle
from workflows.decide.actions import Action, Wake, key
from workflows.decide.ending.grace import effective_grace
from workflows.decide.hooks.hooks import LEFT_AFTER_HOOK, run_hook, terms
from workflows.decide.situation import Situation, pull_secrets, unless_backing_off
from workflows.decide.slices import hook_container_slice, own_part
from workflows.decide.volumes.downward import host_ips_shown, start_slice
from workflows.decide.volumes.mounts import mounted_for

RAN_OUT: Final = "the grace period ran out"


def before_start(situation: Situation, asked: StartContainer) -> Iterator[Action | Wake]:
    """Start a container once its postStop and preStart hooks have run; if it may not start yet, wake when it may."""
    name = str(asked.container["name"])
    if is_pending(situation, name) or is_under_way(situation, name, Hook.PRE_START):
        return
    for answer in unless_backing_off(situation, asked):
        yield answer if isinstance(answer, Wake) or is_prepared(situation, asked) else pre_start(situation, asked)


def is_prepared(situation: Situation, asked: StartContainer) -> bool:
    """Report whether a container has no preStart hook, or that succeeded for this attempt."""
    name = str(asked.container["name"])
    if terms(situation, name, Hook.PRE_START) is None:
        return True
    known = situation.facts(name).pre_start
    here = known and (known.sandbox_id, known.attempt) == (asked.sandbox_id, asked.attempt)
    return bool(known and here and known.succeeded)


def is_under_way(situation: Situation, name: str, hook: Hook) -> bool:
    """Report whether such a hook of a container is under way in the current sandbox."""
    return any(
        isinstance(one, RunHook) and (one.name, one.hook, one.sandbox_id) == (name, hook, situation.sandbox_id)
        for one in situation.busy.values()
    )


def pre_start_is_running(situation: Situation) -> bool:
    """Report whether a preStart hook is under way; it is part of a start, and containers start one after the other."""
    return any(isinstance(one, RunHook) and one.hook is Hook.PRE_START for one in situation.busy.values())


def pre_start(situation: Situation, asked: StartContainer) -> RunHook:
    """Return the request of a preStart hook."""
    name, number = str(asked.container["name"]), asked.attempt
    reason = f"before restart {number}" if number else "before its start"
    hook = replace(run_hook(situation, name, Hook.PRE_START), container_id="", attempt=number, reason=reason)
    return with_helper(situation, hook, asked.image_ref)


def is_pending(situation: Situation, name: str) -> bool:
    """Report whether the newest instance has ended and its postStop hook has not."""
    facts = situation.facts(name)
    if facts.exit is None or not facts.container_id:
        return False
    known = facts.post_stop
    wanted = terms(situation, name, Hook.POST_STOP) is not None
    return wanted and (known is None or known.container_id != facts.container_id)


def any_pending(situation: Situation) -> bool:
    """Report whether a postStop hook is running or still has to run."""
    return any(is_pending(situation, one.name) for one in situation.all_containers)


def after_ends(situation: Situation) -> Iterator[Action | Wake]:
    """Run the postStop hook of each container that has ended, side by side, and wake when its time is over."""
    for one in situation.all_containers:
        if not is_pending(situation, one.name):
            continue
        hook, over_at = post_stop(situation, one.name), hook_deadline(situation, one.name)
        running = situation.busy.get(key(hook))
        if not isinstance(running, RunHook):
            yield hook
        elif over_at and over_at > situation.now and lasts_beyond(running, over_at):
            yield Wake(over_at, f"the grace of {one.name}'s postStop hook ends at {over_at:%H:%M:%S}", key(hook))


def post_stop(situation: Situation, name: str) -> RunHook:
    """Return the request of a postStop hook."""
    facts, over_at = situation.facts(name), hook_deadline(situation, name)
    code = facts.exit.exit_code if facts.exit else 0
    hook = replace(run_hook(situation, name, Hook.POST_STOP), attempt=facts.attempt, reason=f"after exit {code}")
    if over_at:
        since = effective_grace(situation).since
        hook = replace(hook, asked_at=since, grace=over_at - since)
    (own,) = (one for one in situation.all_containers if one.name == name)
    return with_helper(situation, hook, situation.image(own).image_ref or facts.image_ref)


def with_helper(situation: Situation, hook: RunHook, image_ref: str) -> RunHook:
    """Add the container that runs an exec; no other handler needs one."""
    if "exec" not in hook.handler:
        return hook
    (own,) = (one for one in situation.all_containers if one.name == hook.name)
    sandbox, said = situation.observed.sandbox, terms(situation, hook.name, hook.hook)
    image = said.image if said else ""
    container = hook_container_slice(situation.source, hook.name) | {"command": hook.handler["exec"]["command"]}
    helper = StartContainer(
        pod=hook.pod,
        sandbox_id=hook.sandbox_id,
        attempt=hook.attempt,
        image_ref="" if image else image_ref,
        container=container | {"image": image or own_part(situation.source, hook.name)["image"]},
        sandbox_spec=start_slice(situation.source, hook.name),
        sandbox_attempt=sandbox.attempt if sandbox else 0,
        ips=sandbox.ips if sandbox else (),
        volumes=mounted_for(situation, own),
        host_ips=host_ips_shown(situation, hook.name),
    )
    return replace(hook, helper=helper, secrets=pull_secrets(situation.spec) if image else hook.secrets)


def hook_deadline(situation: Situation, name: str) -> datetime | None:
    """Return when the time of a postStop hook in a terminating pod is over; None for the hook's own limits."""
    observed, end = situation.observed, situation.facts(name).exit
    if not (observed.deletion or observed.eviction):
        return None
    ended_at = end.finished_at if end else None
    return max(effective_grace(situation).over_at, (ended_at or situation.now) + LEFT_AFTER_HOOK)


def lasts_beyond(running: RunHook, over_at: datetime) -> bool:
    """Report whether a hook may run beyond this time."""
    return running.asked_at is None or running.grace is None or running.asked_at + running.grace > over_at


def abandoned(situation: Situation) -> list[str]:
    """List the keys of preStart and postStop hooks whose result no longer matters, and record those out of time."""
    found = []
    for name, action in situation.busy.items():
        if not isinstance(action, RunHook):
            continue
        if (action.hook is Hook.PRE_START and situation.observed.lifecycle is not Lifecycle.SYNC) or (
            action.hook is Hook.POST_STOP and not is_pending(situation, action.name)
        ):
            found.append(name)
        elif action.hook is Hook.POST_STOP and is_out_of_time(situation, action):
            known = situation.observed.containers[action.name]
            known.post_stop = HookOutcome(action.container_id, succeeded=False, message=RAN_OUT, ended_at=situation.now)
            found.append(name)
    return found


def is_out_of_time(situation: Situation, running: RunHook) -> bool:
    """Report whether the time of a hook that began before its pod terminated is over."""
    over_at = hook_deadline(situation, running.name)
    return over_at is not None and over_at <= situation.now and lasts_beyond(running, over_at)
