"""How a re-read of the runtime changes `Observed`, so that both agree.

The runtime is read only while no action is under way that the read could miss (`steps/pod_actions.py`). It is right
about what it holds. What it no longer holds stays as it was known, and a container that has disappeared counts as
ended, with the kubelet's reason.
"""

from dataclasses import replace

from proto.temporal.activities.requests import PodRuntime, RuntimeContainer
from proto.temporal.pod import ContainerFacts, Sandbox
from workflows.decide.containers.init_containers import is_sidecar
from workflows.decide.containers.instances import instance_seen, new_instance, vanished
from workflows.decide.situation import Situation, look_for_starts
from workflows.decide.versions import LOOKS_FOR_STARTS


def runtime_read(situation: Situation, seen: PodRuntime) -> None:
    """Apply a re-read; a hint that came meanwhile asks for another one."""
    observed = situation.observed
    observed.runtime_stale, observed.runtime_stale_again = observed.runtime_stale_again, False
    observed.starts_in_doubt = observed.unseen = False
    sandboxes_read(situation, seen.sandboxes)
    by_name: dict[str, list[RuntimeContainer]] = {}
    for one in seen.containers:
        by_name.setdefault(one.name, []).append(one)
    for container in situation.all_containers:
        instances = sorted(by_name.get(container.name, ()), key=lambda one: one.attempt)
        instances_read(situation, container.name, instances)
    initialization_read(situation)


def look_for_earlier_starts(situation: Situation) -> None:
    """Look for what starts that failed in the run before may have created; before behaviour 7 that run did not."""
    if situation.behaviour >= LOOKS_FOR_STARTS and any(
        one.startswith("container/") for one in situation.observed.failures
    ):
        look_for_starts(situation.observed)


def instances_read(situation: Situation, name: str, instances: list[RuntimeContainer]) -> None:
    """Record a container's instances, oldest first, as if each had been seen when it came up."""
    observed = situation.observed
    if not instances and name not in observed.containers:
        return
    facts = observed.containers.setdefault(name, ContainerFacts())
    known = facts.container_id
    if known and facts.exit is None and known not in {one.container_id for one in instances}:
        vanished(situation, name, facts)
    for one in instances:
        if one.container_id != facts.container_id and one.attempt >= facts.attempt:
            new_instance(situation, facts, one)
        if one.container_id == facts.container_id:
            instance_seen(situation, facts, one)
    observed.dead_containers[name] = tuple(
        one.container_id for one in instances if one.container_id != facts.container_id
    )


def initialization_read(situation: Situation) -> None:
    """Mark an init container as done if a later one has come up in the same sandbox.

    The runtime may have removed it, and a lost history does not have it (kuberuntime_container.go
    computeInitContainerActions also goes by the last one that it finds). A sidecar is never done.
    """
    observed = situation.observed
    sandbox_id = observed.sandbox.sandbox_id if observed.sandbox else ""
    if not sandbox_id:
        return
    later = any(situation.facts(one.name).sandbox_id == sandbox_id for one in situation.containers)
    for one in reversed(situation.init_containers):
        if later and not is_sidecar(situation, one.name):
            observed.containers.setdefault(one.name, ContainerFacts()).done_in_sandbox = sandbox_id
        later = later or situation.facts(one.name).sandbox_id == sandbox_id


def sandboxes_read(situation: Situation, seen: tuple[Sandbox, ...]) -> None:
    """Make the newest sandbox the pod's own; all others are old."""
    observed = situation.observed
    observed.old_sandboxes = ()
    if not seen:
        if observed.sandbox:
            observed.sandbox.ready, observed.sandbox.stopped = False, True
        return
    newest = max(seen, key=lambda one: one.attempt)
    if observed.sandbox is None or newest.sandbox_id != observed.sandbox.sandbox_id:
        observed.sandbox = replace(newest, ready=False)
    has_network = bool(situation.spec.host_network or newest.ips or observed.sandbox.ips)
    observed.sandbox.ready = newest.ready and has_network and not observed.sandbox.stopped
    observed.next_sandbox_attempt = max(observed.next_sandbox_attempt, newest.attempt + 1)
    oldest_first = sorted(seen, key=lambda one: one.attempt)
    observed.old_sandboxes = tuple(one.sandbox_id for one in oldest_first if one.sandbox_id != newest.sandbox_id)
