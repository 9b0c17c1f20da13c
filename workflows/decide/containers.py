"""Which container starts next: init containers one after the other, then the regular ones, each when its backoff is over.

What has been done in this sandbox is known from `Observed`, never inferred from what the runtime still remembers: an init
container that succeeded stays done when its record is pruned, and is done again when the sandbox is new
(pkg/kubelet/kuberuntime/kuberuntime_manager.go computePodActions).
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from kubernetes.client.models.v1_container import V1Container

from proto.temporal.pod import ContainerFacts, ContainerState
from proto.temporal.requests import RemoveContainer, RemovePodSandbox, StartContainer, StopContainer
from workflows.decide.actions import Action, Wake, container_key
from workflows.decide.backoff import Backoff, due
from workflows.decide.restart import RestartPolicy, comes_back, init_starts_again
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
    """The runtime does not know whether it runs: it is stopped before it starts again."""
    LOST = "lost"
    """It lives in a sandbox that is not the pod's any more: it is stopped."""


def policy_of(situation: Situation) -> RestartPolicy:
    """The pod's restartPolicy."""
    return RestartPolicy(situation.spec.restart_policy or "Always")


def is_init(situation: Situation, name: str) -> bool:
    """Say whether it is an init container."""
    return name in situation.init_names


def standing(situation: Situation, container: V1Container) -> Standing:
    """Say where a container stands."""
    facts = situation.facts(container.name)
    here = bool(facts.sandbox_id) and facts.sandbox_id == situation.sandbox_id
    init = is_init(situation, container.name)
    if init and situation.sandbox_id and facts.done_in_sandbox == situation.sandbox_id:
        return Standing.DONE
    if facts.exit is not None:
        policy = policy_of(situation)
        again = init_starts_again(policy, facts.exit) or not here if init else comes_back(policy, facts)
        return Standing.WANTED if again else Standing.DONE
    match facts.state:
        case None:
            return Standing.WANTED
        case _ if not here:
            return Standing.LOST
        case ContainerState.RUNNING:
            return Standing.UP
        case ContainerState.UNKNOWN:
            return Standing.UNKNOWN
        case _:
            return Standing.WANTED


def starts_at(facts: ContainerFacts) -> datetime | None:
    """Say when a container that is wanted may start again, an operator's skip included; None when it never ended."""
    if facts.exit is None or facts.exit.finished_at is None:
        return None
    at = due(Backoff(facts.backoff, facts.backoff_at), facts.exit.finished_at)
    return at if facts.skipped_at is None else min(at, facts.skipped_at)


def is_due(situation: Situation, container: V1Container) -> bool:
    """Say whether a container is to start, and no backoff holds it."""
    if standing(situation, container) is not Standing.WANTED:
        return False
    at = starts_at(situation.facts(container.name))
    return at is None or at <= situation.now


def start(situation: Situation, container: V1Container) -> StartContainer:
    """Write the request that starts a container's next instance."""
    sandbox = situation.observed.sandbox
    return StartContainer(
        pod=situation.key,
        sandbox_id=situation.sandbox_id,
        attempt=next_attempt(situation.facts(container.name)),
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


def next_in_line(situation: Situation) -> list[V1Container]:
    """The containers whose turn it is: the first unfinished init container, else all the regular ones."""
    for one in situation.init_containers:
        if standing(situation, one) is not Standing.DONE:
            return [one]
    return situation.containers


def start_containers(situation: Situation) -> Iterator[Action | Wake]:
    """Start what is due, one at a time and in the spec's order, as the kubelet does; what is lost is stopped first."""
    if not situation.sandbox_id or not situation.observed.directories or init_failed(situation):
        return
    if any(standing(situation, one) is Standing.LOST for one in (*situation.init_containers, *situation.containers)):
        return
    starting = any(isinstance(action, StartContainer) for action in situation.busy.values())
    for container in next_in_line(situation):
        match standing(situation, container):
            case Standing.UNKNOWN:
                yield from unless_failed(situation, stop_unknown(situation, container))
            case Standing.WANTED:
                for answer in start_when_due(situation, container, starting=starting):
                    starting = starting or isinstance(answer, StartContainer)
                    yield answer


def start_when_due(situation: Situation, container: V1Container, *, starting: bool) -> Iterator[Action | Wake]:
    """Start one container, or say when; nothing while its image is awaited or another one is starting."""
    facts = situation.facts(container.name)
    at = starts_at(facts)
    if at and at > situation.now:
        summary = f"CrashLoopBackOff: restart {next_attempt(facts)} of {container.name} at {at:%H:%M:%S}"
        yield Wake(at, summary, container_key(container.name))
    elif situation.image(container).pulled and not starting:
        yield from unless_failed(situation, start(situation, container))


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
    """Remove what only the past needs, while nothing can start.

    Of each container the newest dead instance stays, for its logs (pkg/kubelet/kubelet.go maxPerPodContainerCount); a lost
    sandbox goes with all that was in it.
    """
    observed = situation.observed
    leftover = [(name, dead) for name, dead in observed.dead_containers.items() if len(dead) > 1]
    if not situation.sandbox_id or not (observed.old_sandboxes or leftover):
        return
    if any(isinstance(one, StartContainer) for one in (*situation.busy.values(), *start_containers(situation))):
        return
    for sandbox_id in observed.old_sandboxes:
        yield from unless_failed(situation, RemovePodSandbox(situation.key, sandbox_id))
    for name, dead in leftover:
        for container_id in dead[:-1]:
            yield from unless_failed(situation, RemoveContainer(situation.key, name, container_id))
