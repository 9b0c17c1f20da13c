"""Which container starts next: init containers one after the other, then the regular ones, each when its backoff is over.

What has been done in this sandbox is known from `Observed`, never inferred from what the runtime still remembers: an init
container that succeeded stays done when its record is pruned, and is done again when the sandbox is new
(pkg/kubelet/kuberuntime/kuberuntime_manager.go computePodActions).
"""

from collections.abc import Iterator
from datetime import timedelta
from enum import StrEnum
from typing import Final

from kubernetes.client.models.v1_container import V1Container

from proto.temporal.pod import ContainerFacts, ContainerState
from proto.temporal.requests import RemoveContainer, RemovePodSandbox, StartContainer, StopContainer
from workflows.decide.actions import Action, Wake
from workflows.decide.backoff import Backoff, due
from workflows.decide.restart import RestartPolicy, init_starts_again, starts_again
from workflows.decide.situation import Situation, unless_failed
from workflows.decide.slices import container_slice, sandbox_slice

STOP_UNKNOWN_WITHIN: Final = timedelta(seconds=2)
"""Grace for a container whose state nobody knows (kuberuntime_container.go minimumGracePeriodInSeconds)."""


class Standing(StrEnum):
    """Where a container stands in the present sandbox."""

    DONE = "done"
    UP = "up"
    WANTED = "wanted"
    UNKNOWN = "unknown"


def policy_of(situation: Situation) -> RestartPolicy:
    """The pod's restartPolicy."""
    return RestartPolicy(situation.spec.restart_policy or "Always")


def is_init(situation: Situation, name: str) -> bool:
    """Say whether it is an init container."""
    return any(one.name == name for one in situation.init_containers)


def standing(situation: Situation, container: V1Container) -> Standing:
    """Say where a container stands."""
    facts = situation.facts(container.name)
    here = bool(facts.sandbox_id) and facts.sandbox_id == situation.sandbox_id
    if is_init(situation, container.name):
        if situation.sandbox_id and facts.done_in_sandbox == situation.sandbox_id:
            return Standing.DONE
        again = facts.exit is None or not here or init_starts_again(policy_of(situation), facts.exit)
    else:
        again = facts.exit is None or starts_again(policy_of(situation), facts.exit)
    if facts.exit is not None:
        return Standing.WANTED if again else Standing.DONE
    match facts.state:
        case ContainerState.RUNNING if here:
            return Standing.UP
        case ContainerState.UNKNOWN if here:
            return Standing.UNKNOWN
        case _:
            return Standing.WANTED


def wanted(situation: Situation, container: V1Container) -> StartContainer | Wake | None:
    """Say whether a container is to start now (the request), later (the wake) or not at all (None)."""
    if standing(situation, container) is not Standing.WANTED:
        return None
    facts = situation.facts(container.name)
    if facts.exit and facts.exit.finished_at:
        at = due(Backoff(facts.backoff, facts.backoff_at), facts.exit.finished_at)
        if at > situation.now:
            return Wake(at, f"CrashLoopBackOff: restart {next_attempt(facts)} of {container.name} at {at:%H:%M:%S}")
    sandbox = situation.observed.sandbox
    return StartContainer(
        pod=situation.key,
        sandbox_id=situation.sandbox_id,
        attempt=next_attempt(facts),
        image_ref=situation.image(container).image_ref,
        container=container_slice(situation.source, container.name),
        sandbox_spec=sandbox_slice(situation.source),
        sandbox_attempt=sandbox.attempt if sandbox else 0,
        ips=sandbox.ips if sandbox else (),
    )


def next_attempt(facts: ContainerFacts) -> int:
    """Number the next instance: the same while the last one never came to be, one more after each that did."""
    return facts.attempt + 1 if facts.exit is not None else facts.attempt


def init_failed(situation: Situation) -> bool:
    """Say whether an init container has failed for good: nothing starts after it."""
    policy = policy_of(situation)
    return any(
        (ended := situation.facts(one.name).exit) and ended.exit_code != 0 and not init_starts_again(policy, ended)
        for one in situation.init_containers
    )


def initialized(situation: Situation) -> bool:
    """Say whether every init container has succeeded in this sandbox."""
    return all(standing(situation, one) is Standing.DONE for one in situation.init_containers)


def next_in_line(situation: Situation) -> list[V1Container]:
    """The containers whose turn it is: the first unfinished init container, else all the regular ones."""
    for one in situation.init_containers:
        if standing(situation, one) is not Standing.DONE:
            return [one]
    return situation.containers


def start_containers(situation: Situation) -> Iterator[Action | Wake]:
    """Start what is due, one at a time and in the spec's order, as the kubelet does."""
    if not situation.sandbox_id or not situation.observed.directories or init_failed(situation):
        return
    starting = any(isinstance(action, StartContainer) for action in situation.busy.values())
    for container in next_in_line(situation):
        if standing(situation, container) is Standing.UNKNOWN:
            yield from unless_failed(situation, stop_unknown(situation, container))
            continue
        match wanted(situation, container):
            case Wake() as wake:
                yield wake
            case StartContainer() as start if situation.image(container).pulled and not starting:
                for answer in unless_failed(situation, start):
                    starting = starting or isinstance(answer, StartContainer)
                    yield answer


def stop_unknown(situation: Situation, container: V1Container) -> StopContainer:
    """Stop a container of which the runtime has lost the state, so that it can start again."""
    facts = situation.facts(container.name)
    return StopContainer(
        pod=situation.key,
        name=container.name,
        container_id=facts.container_id,
        grace=STOP_UNKNOWN_WITHIN,
        asked_at=situation.now,
        reason="the runtime does not know its state",
    )


def tidy(situation: Situation) -> Iterator[Action | Wake]:
    """Remove what only the past needs, once nothing is left to start.

    Of each container the newest dead instance stays, for its logs (pkg/kubelet/kubelet.go maxPerPodContainerCount); a lost
    sandbox goes with all that was in it.
    """
    everyone = (*situation.init_containers, *situation.containers)
    if not situation.sandbox_id or any(standing(situation, one) is Standing.WANTED for one in everyone):
        return
    for sandbox_id in situation.observed.old_sandboxes:
        yield from unless_failed(situation, RemovePodSandbox(situation.key, sandbox_id))
    for name, dead in situation.observed.dead_containers.items():
        for container_id in dead[:-1]:
            yield from unless_failed(situation, RemoveContainer(situation.key, name, container_id))
