"""Hooks that Kubernetes does not have: preStart, before a container starts, and postStop, after each of its ends.

Asked by `containers` before a start and while a pod runs, by `termination` while it goes. A pod asks for them by annotation
(`hook_terms`), and only then is anything here done. A preStart hook belongs to an attempt: until one has gone well the
container is not started, and one that has failed is tried again as a failed start is. A postStop hook belongs to an instance
that has ended: it runs once, well or badly, and until then neither is the container started again nor the sandbox stopped.
While a pod goes it has what is left of the grace, and at the least two seconds from its container's end.
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
from workflows.decide.hooks.hooks import LEFT_AFTER_HOOK, run_hook
from workflows.decide.manifest import hook_terms
from workflows.decide.situation import Situation, pull_secrets, unless_backing_off
from workflows.decide.slices import hook_container_slice, own_part
from workflows.decide.volumes.downward import host_ips_shown, start_slice
from workflows.decide.volumes.mounts import mounted_for

RAN_OUT: Final = "the grace period ran out"


def before_start(situation: Situation, asked: StartContainer) -> Iterator[Action | Wake]:
    """Start a container, its postStop and preStart hooks first; when it may not start yet, say when."""
    name = str(asked.container["name"])
    if is_pending(situation, name) or is_under_way(situation, name, Hook.PRE_START):
        return
    for answer in unless_backing_off(situation, asked):
        yield answer if isinstance(answer, Wake) or is_prepared(situation, asked) else pre_start(situation, asked)


def is_prepared(situation: Situation, asked: StartContainer) -> bool:
    """Say whether no preStart hook stands before a start: there is none, or it went well for this attempt."""
    name = str(asked.container["name"])
    if hook_terms.terms(situation.source, name, Hook.PRE_START) is None:
        return True
    known = situation.facts(name).pre_start
    here = known and (known.sandbox_id, known.attempt) == (asked.sandbox_id, asked.attempt)
    return bool(known and here and known.succeeded)


def is_under_way(situation: Situation, name: str, hook: Hook) -> bool:
    """Say whether such a hook of a container is under way in the present sandbox."""
    return any(
        isinstance(one, RunHook) and (one.name, one.hook, one.sandbox_id) == (name, hook, situation.sandbox_id)
        for one in situation.busy.values()
    )


def prepares(situation: Situation) -> bool:
    """Say whether a preStart hook is under way: it is a part of a start, and containers start one after the other."""
    return any(isinstance(one, RunHook) and one.hook is Hook.PRE_START for one in situation.busy.values())


def pre_start(situation: Situation, asked: StartContainer) -> RunHook:
    """Write the request of the hook that goes before a start."""
    name, number = str(asked.container["name"]), asked.attempt
    reason = f"before restart {number}" if number else "before its start"
    hook = replace(run_hook(situation, name, Hook.PRE_START), container_id="", attempt=number, reason=reason)
    return with_helper(situation, hook, asked.image_ref)


def is_pending(situation: Situation, name: str) -> bool:
    """Say whether the newest instance has ended, and its postStop hook has not."""
    facts = situation.facts(name)
    if facts.exit is None or not facts.container_id:
        return False
    known = facts.post_stop
    wanted = hook_terms.terms(situation.source, name, Hook.POST_STOP) is not None
    return wanted and (known is None or known.container_id != facts.container_id)


def any_pending(situation: Situation) -> bool:
    """Say whether a postStop hook is still to run, or runs."""
    return any(is_pending(situation, one.name) for one in situation.all_containers)


def after_ends(situation: Situation) -> Iterator[Action | Wake]:
    """Run the postStop hook of each container that has ended, side by side; say when nobody waits for one any longer."""
    for one in situation.all_containers:
        if not is_pending(situation, one.name):
            continue
        hook, over_at = post_stop(situation, one.name), over(situation, one.name)
        running = situation.busy.get(key(hook))
        if not isinstance(running, RunHook):
            yield hook
        elif over_at and over_at > situation.now and lasts_beyond(running, over_at):
            yield Wake(over_at, f"the grace of {one.name}'s postStop hook ends at {over_at:%H:%M:%S}", key(hook))


def post_stop(situation: Situation, name: str) -> RunHook:
    """Write the request of the hook that goes after an end."""
    facts, over_at = situation.facts(name), over(situation, name)
    code = facts.exit.exit_code if facts.exit else 0
    hook = replace(run_hook(situation, name, Hook.POST_STOP), attempt=facts.attempt, reason=f"after exit {code}")
    if over_at:
        since = effective_grace(situation).since
        hook = replace(hook, asked_at=since, grace=over_at - since)
    (own,) = (one for one in situation.all_containers if one.name == name)
    return with_helper(situation, hook, situation.image(own).image_ref or facts.image_ref)


def with_helper(situation: Situation, hook: RunHook, image_ref: str) -> RunHook:
    """Add what the container of an exec is made of; no other handler needs one."""
    if "exec" not in hook.handler:
        return hook
    (own,) = (one for one in situation.all_containers if one.name == hook.name)
    sandbox, said = situation.observed.sandbox, hook_terms.terms(situation.source, hook.name, hook.hook)
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


def over(situation: Situation, name: str) -> datetime | None:
    """Say until when the postStop hook of a container in a pod that goes may last; None: as long as its own limits say."""
    observed, end = situation.observed, situation.facts(name).exit
    if not (observed.deletion or observed.eviction):
        return None
    ended_at = end.finished_at if end else None
    return max(effective_grace(situation).over_at, (ended_at or situation.now) + LEFT_AFTER_HOOK)


def lasts_beyond(running: RunHook, over_at: datetime) -> bool:
    """Say whether a hook was given longer than this, or no end at all."""
    return running.asked_at is None or running.grace is None or running.asked_at + running.grace > over_at


def given_up(situation: Situation) -> list[str]:
    """Name the keys of hooks of our own that nobody waits for any more, and write down those that ran out of time."""
    found = []
    for name, action in situation.busy.items():
        if not isinstance(action, RunHook):
            continue
        if (action.hook is Hook.PRE_START and situation.observed.lifecycle is not Lifecycle.SYNC) or (
            action.hook is Hook.POST_STOP and not is_pending(situation, action.name)
        ):
            found.append(name)
        elif action.hook is Hook.POST_STOP and ran_out(situation, action):
            known = situation.observed.containers[action.name]
            known.post_stop = HookOutcome(action.container_id, succeeded=False, message=RAN_OUT, ended_at=situation.now)
            found.append(name)
    return found


def ran_out(situation: Situation, running: RunHook) -> bool:
    """Say whether the time of a hook that began before its pod had to go is over."""
    over_at = over(situation, running.name)
    return over_at is not None and over_at <= situation.now and lasts_beyond(running, over_at)
