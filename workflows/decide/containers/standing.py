"""The state of a container in the current sandbox, as decisions need it, and whether it is due to start.

Shared by the steps that start, probe and pull, and by status, operator requests and explain.
"""

from datetime import timedelta
from enum import StrEnum
from typing import Final

from kubernetes.client.models.v1_container import V1Container

from proto.temporal.pod import ContainerFacts, ContainerState
from workflows.decide.containers.backoff import starts_at
from workflows.decide.containers.init_containers import (
    init_failed,
    is_init,
    is_sidecar,
    policy_of,
)
from workflows.decide.containers.readiness import is_started
from workflows.decide.containers.restart import init_should_restart, regular_should_restart
from workflows.decide.containers.restart_all import restart_all_triggers
from workflows.decide.hooks import hooks
from workflows.decide.situation import Situation

END_WITHIN: Final = timedelta(milliseconds=150)
"""How long starting an init container waits for its end, so that a short one needs no hint, re-read and workflow task.

It is not shown as running in that time, and a sidecar that has ended waits for its turn.
"""


class Standing(StrEnum):
    """The state of a container in the current sandbox."""

    DONE = "done"
    UP = "up"
    WANTED = "wanted"
    UNKNOWN = "unknown"
    """The runtime does not know its state: it is stopped before it starts again."""
    LOST = "lost"
    """It lives in a sandbox that the pod no longer uses: it is stopped."""


def standing(situation: Situation, container: V1Container) -> Standing:
    """Return where a container stands."""
    facts = situation.facts(container.name)
    here = bool(facts.sandbox_id) and facts.sandbox_id == situation.sandbox_id
    if situation.sandbox_id and facts.done_in_sandbox == situation.sandbox_id:
        return Standing.DONE
    if facts.exit is not None:
        again = should_restart(situation, container, facts, here=here)
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


def should_restart(situation: Situation, container: V1Container, facts: ContainerFacts, *, here: bool) -> bool:
    """Report whether a container of any kind that ended, in this sandbox or an earlier one, is to run again.

    Ephemeral containers are never restarted. A container whose state the runtime has lost is left alone.
    """
    policy = policy_of(situation)
    if container.name in situation.ephemeral_names:
        return False
    if is_sidecar(situation, container.name):
        return not pod_is_done(situation)
    if is_init(situation, container.name):
        code = facts.exit.exit_code if facts.exit else 0
        return not here or init_should_restart(container, policy, code)
    return regular_should_restart(container, policy, facts)


def pod_is_done(situation: Situation) -> bool:
    """Report whether the pod has nothing left to do, so that its sidecars have not, either."""
    if restart_all_triggers(situation):
        return False
    return init_failed(situation) or all(standing(situation, one) is Standing.DONE for one in situation.containers)


def is_due(situation: Situation, container: V1Container) -> bool:
    """Report whether a container is to start and has no back-off left."""
    if standing(situation, container) is not Standing.WANTED:
        return False
    at = starts_at(situation.facts(container.name))
    return at is None or at <= situation.now


def next_attempt(facts: ContainerFacts) -> int:
    """Return the attempt of the next instance: one more than the last, or the same if that was never created."""
    return facts.attempt + 1 if facts.exit is not None else facts.attempt


def stops_outdated(situation: Situation, container: V1Container) -> bool:
    """Report whether a running container is stopped for another definition; a sidecar only once it has started."""
    if not situation.facts(container.name).outdated or standing(situation, container) is not Standing.UP:
        return False
    if is_sidecar(situation, container.name):
        return is_started(situation, container)
    return not hooks.is_starting(situation, container)
