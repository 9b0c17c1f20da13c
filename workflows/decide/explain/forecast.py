"""What would happen next: the pure core, run on a copy of the pod in which time has passed.

No rule is repeated here. An action under way is assumed to succeed and its answer is folded, time moves on to the next
wake, and `pod_actions` says what follows. So a new rule is part of the forecast by itself. An action whose answer
cannot be forecast stays under way.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from kubernetes.client.models.v1_container import V1Container

from proto.temporal.activities.claims import PreparedResources, PrepareResources
from proto.temporal.activities.requests import (
    ImagesPresent,
    PodSandbox,
    PulledImage,
    PullImage,
    ReadImages,
    RunHook,
    RunPodSandbox,
    RuntimeContainer,
    ShortenStop,
    StartContainer,
    StopContainer,
)
from proto.temporal.activities.resize import UpdateContainerResources
from proto.temporal.activities.volumes import MountedVolumes, MountVolumes
from proto.temporal.hooks import HookEnded
from proto.temporal.mounted import MountedVolume
from proto.temporal.pod import ContainerState
from proto.temporal.resources import RuntimeResources
from workflows.decide.actions import ACTIONS, Action, is_endless, key
from workflows.decide.containers.backoff import starts_at
from workflows.decide.containers.instances import instance_seen, reason_of
from workflows.decide.containers.standing import Standing, next_attempt, standing
from workflows.decide.containers.termination_order import live_containers
from workflows.decide.lifecycle import lifecycle
from workflows.decide.lifecycle.lifecycle import Event
from workflows.decide.record.fold import Answer, fold
from workflows.decide.situation import Situation
from workflows.decide.status.status import pod_status
from workflows.decide.steps.pod_actions import pod_actions

LOOKS: Final = 40
"""How often the core is asked at most; a pod of 20 containers comes up in fewer."""
TERMINATED_BY_SIGTERM: Final = 143


@dataclass(frozen=True, slots=True)
class Forecast:
    """The answer of an action that succeeds; None for many."""

    answer: Answer


@dataclass(frozen=True, slots=True)
class AfterEnd:
    """What would follow if a container ended now."""

    restarts_after: timedelta | None = None
    """None if it is not restarted."""
    attempt: int = 0
    begins: tuple[Action, ...] = ()
    """The actions that its end would cause besides."""
    phase: str = ""
    """The pod's final phase, if the pod would be finished."""


def apart(situation: Situation) -> Situation:
    """Copy a situation, so that the forecast does not change it."""
    return replace(situation, observed=copy.deepcopy(situation.observed))


def if_all_goes_well(situation: Situation) -> Iterator[Action]:
    """Yield the actions that would begin one after the other, until only a container's own end leads on."""
    ahead = apart(situation)
    for _ in range(LOOKS):
        ahead = after_success(ahead)
        plan = pod_actions(ahead)
        if plan.begin:
            yield from plan.begin
            ahead = replace(ahead, busy={**ahead.busy, **{key(action): action for action in plan.begin}})
        elif plan.wake and plan.wake.at > ahead.now:
            ahead = replace(ahead, now=plan.wake.at)
        else:
            return


def after_success(ahead: Situation) -> Situation:
    """Let the actions under way succeed as far as that can be forecast, then advance the lifecycle."""
    still: dict[str, Action] = {}
    for name, action in ahead.busy.items():
        if forecast := forecast_answer(ahead, action):
            others = {other: one for other, one in ahead.busy.items() if other != name}
            fold(replace(ahead, busy=others), action, forecast.answer)
        else:
            still[name] = action
    ahead = replace(ahead, busy=still)
    while event := lifecycle.next_event(ahead):
        lifecycle.happened(ahead, event)
    return ahead


def forecast_answer(ahead: Situation, action: Action) -> Forecast | None:
    """Return the answer of an action that succeeds; None if it cannot be forecast, as with a re-read."""
    match action:
        case RunPodSandbox(attempt=attempt):
            return Forecast(PodSandbox(f"next-{attempt}", attempt, ("",), ahead.now))
        case ReadImages(images=images):
            return Forecast(ImagesPresent(dict.fromkeys(images, "next")))
        case PullImage():
            return Forecast(PulledImage("next"))
        case StartContainer():
            return Forecast(started(ahead, action))
        case RunHook():
            return Forecast(HookEnded(succeeded=True))
        case StopContainer(name=name, container_id=container_id) | ShortenStop(name=name, container_id=container_id):
            return Forecast(ended(ahead, name, container_id, TERMINATED_BY_SIGTERM))
        case MountVolumes(volumes=volumes):
            return Forecast(MountedVolumes(tuple(MountedVolume(one["name"]) for one in volumes)))
        case PrepareResources():
            return Forecast(PreparedResources())
        case UpdateContainerResources():
            return Forecast(RuntimeResources())
        case _:
            says_nothing = ACTIONS[type(action)].result is None and not is_endless(action)
            return Forecast(None) if says_nothing else None


def started(ahead: Situation, start: StartContainer) -> RuntimeContainer:
    """Return what the runtime would report of a container that starts now."""
    name = start.container["name"]
    return RuntimeContainer(
        name,
        f"next-{name}-{start.attempt}",
        start.sandbox_id,
        start.attempt,
        ContainerState.RUNNING,
        created_at=ahead.now,
        started_at=ahead.now,
    )


def ended(ahead: Situation, name: str, container_id: str, exit_code: int) -> RuntimeContainer:
    """Return what the runtime would report of a container that ends now."""
    facts = ahead.facts(name)
    return RuntimeContainer(
        name,
        container_id,
        facts.sandbox_id,
        facts.attempt,
        ContainerState.EXITED,
        created_at=facts.created_at,
        started_at=facts.started_at,
        finished_at=ahead.now,
        exit_code=exit_code,
        reason=reason_of(exit_code),
    )


def after_end_of(situation: Situation, container: V1Container, exit_code: int) -> AfterEnd:
    """Return what would follow if a running container ended now with this exit code."""
    ahead = apart(situation)
    facts = ahead.observed.containers[container.name]
    instance_seen(ahead, facts, ended(ahead, container.name, facts.container_id, exit_code))
    if lifecycle.next_event(ahead) is Event.POD_FINISHED:
        for name in live_containers(ahead):  # sidecars, which are then stopped
            last = ahead.observed.containers[name]
            instance_seen(ahead, last, ended(ahead, name, last.container_id, TERMINATED_BY_SIGTERM))
        return AfterEnd(phase=pod_status(ahead).phase or "")
    begins = tuple(one for one in pod_actions(ahead).begin if isinstance(one, StartContainer | StopContainer))
    if standing(ahead, container) is not Standing.WANTED:
        return AfterEnd(begins=begins)
    at = starts_at(facts) or ahead.now
    return AfterEnd(max(at - ahead.now, timedelta()), next_attempt(facts))
