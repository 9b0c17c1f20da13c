"""The action RestartAllContainers of a restart rule: the end of one container restarts all.

Every live container is stopped, and every container is removed from the runtime, the one whose end triggered the
restart last. Then the pod starts again in the same sandbox: init containers, sidecars, regular ones, each with the next
attempt (pkg/kubelet/kuberuntime/kuberuntime_manager.go computePodActions, getContainersToReset; gate
RestartAllContainersOnContainerExits). While the triggering end is still remembered the restart is not finished, so a
worker may die at any point.

One difference: the kubelet forgets every back-off with the containers. Here the triggering end waits like any crash,
because a loop without a delay would fill the history.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Final

from kubernetes.client.models.v1_container import V1Container

from proto.temporal.activities.requests import RemoveContainer, StopContainer
from proto.temporal.pod import ContainerFacts
from workflows.decide.actions import Action, Wake
from workflows.decide.containers import backoff
from workflows.decide.containers.restart import RuleAction, matching_rule
from workflows.decide.containers.termination_order import live_containers, waiting_for_others
from workflows.decide.ending.grace import Grace, stop_request
from workflows.decide.hooks import own_hooks
from workflows.decide.keys import container_key
from workflows.decide.situation import Situation, unless_backing_off

RESTARTING: Final = "RestartingAllContainers"
GRACE: Final = timedelta(seconds=2)
"""The grace period of containers that are stopped for it (kuberuntime_container.go minimumGracePeriodInSeconds)."""


def triggers_restart_all(situation: Situation, container: V1Container) -> bool:
    """Report whether a container's end in the current sandbox restarts all containers."""
    facts = situation.facts(container.name)
    if facts.exit is None or not situation.sandbox_id or facts.sandbox_id != situation.sandbox_id:
        return False
    rule = matching_rule(container, facts.exit.exit_code)
    return rule is not None and rule.action == RuleAction.RESTART_ALL


def restart_all_triggers(situation: Situation) -> list[str]:
    """Name the containers whose ends trigger a restart of all; empty if none is under way."""
    return [one.name for one in situation.restart_all if triggers_restart_all(situation, one)]


def restart_all(situation: Situation, asked_by: list[str]) -> Iterator[Action | Wake]:
    """Stop what lives, sidecars last, then remove every instance, the newest of the triggers last.

    No preStop hook runs: the kubelet stops for this without a grace period, which leaves a hook no time.
    """
    at = max(backoff.starts_at(situation.facts(name)) or situation.now for name in asked_by)
    if at > situation.now:
        summary = f"CrashLoopBackOff: restart all containers for {asked_by[0]} at {at:%H:%M:%S}"
        yield Wake(at, summary, container_key(asked_by[0]))
        return
    living = [name for name in live_containers(situation) if name not in situation.ephemeral_names]
    waiting = waiting_for_others(situation, living)
    for name in living:
        if name not in waiting:
            yield from unless_backing_off(situation, stop_for(situation, name, asked_by[0]))
    if not living and not situation.is_busy("container/", "hook/") and not own_hooks.any_pending(situation):
        for name, container_id in next_removals(situation, asked_by):
            yield from unless_backing_off(situation, RemoveContainer(situation.key, name, container_id))


def next_removals(situation: Situation, asked_by: list[str]) -> list[tuple[str, str]]:
    """List what is removed next: earlier instances, then the newest of the others, then the newest of the triggers.

    The order matters, because the runtime may be read in between and the newest instance that it holds counts.
    Ephemeral containers are left alone: they keep running and are never restarted.
    """
    observed, spared = situation.observed, situation.ephemeral_names
    earlier = [
        (name, dead) for name, all_dead in observed.dead_containers.items() if name not in spared for dead in all_dead
    ]
    newest = [
        (name, facts.container_id)
        for name, facts in observed.containers.items()
        if facts.container_id and name not in spared
    ]
    return earlier or [one for one in newest if one[0] not in asked_by] or newest


def stop_for(situation: Situation, name: str, asked_by: str) -> StopContainer:
    """Return the request that stops a container for a restart of all."""
    end = situation.facts(asked_by).exit
    reason = f"{RESTARTING}: {asked_by} ended" + (f" with {end.exit_code}" if end else "")
    return stop_request(situation, name, reason, Grace(GRACE, situation.now))


def removed(situation: Situation, name: str, container_id: str) -> None:
    """Forget an instance removed for a restart of all; with the last one also what was done in the sandbox."""
    observed, facts = situation.observed, situation.facts(name)
    if facts.container_id != container_id or facts.exit is None:
        return
    asked_by = restart_all_triggers(situation)
    earned = backoff.backoff_of(facts)
    if name in asked_by:
        maximum = situation.settings.max_container_restart_period
        earned = backoff.next_backoff(facts, situation.now, maximum)
    observed.containers[name] = ContainerFacts(
        attempt=facts.attempt + 1,
        image=facts.image,
        image_ref=facts.image_ref,
        last_exit=replace(facts.exit, reason=RESTARTING) if facts.stop_reason.startswith(RESTARTING) else facts.exit,
        backoff=earned.delay,
        backoff_at=earned.since,
        done_in_sandbox=facts.done_in_sandbox,
    )
    if asked_by == [name]:
        for one in observed.containers.values():
            one.done_in_sandbox = ""
