"""What would happen next: the pure core, asked about a copy of the pod in which things have gone on.

Asked by `explain`. Nothing is judged here a second time: an action under way is taken to have gone well and is folded as its
answer would be, time goes on to the next wake, and `pod_actions` says what that leads to. So a rule that is new in the core
is foretold without a word here; an action of which nobody can foretell the answer simply stays under way.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from kubernetes.client.models.v1_container import V1Container

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
    """What an action that goes well comes back with; many say no more than that."""

    answer: Answer


@dataclass(frozen=True, slots=True)
class AfterEnd:
    """What would follow if a container ended now."""

    restarts_after: timedelta | None = None
    """None: it stays down."""
    attempt: int = 0
    begins: tuple[Action, ...] = ()
    """What its end would set off besides."""
    phase: str = ""
    """The pod's phase for good, where the pod would be over."""


def apart(situation: Situation) -> Situation:
    """Copy a situation, so that what is foretold is not written down."""
    return replace(situation, observed=copy.deepcopy(situation.observed))


def if_all_goes_well(situation: Situation) -> Iterator[Action]:
    """Say what would begin one after the other, until nothing is due and only a container's own end can lead on."""
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
    """Let what is under way go well, as far as that can be foretold, and the lifecycle follow."""
    still: dict[str, Action] = {}
    for name, action in ahead.busy.items():
        if told := forecast_answer(ahead, action):
            others = {other: one for other, one in ahead.busy.items() if other != name}
            fold(replace(ahead, busy=others), action, told.answer)
        else:
            still[name] = action
    ahead = replace(ahead, busy=still)
    while event := lifecycle.next_event(ahead):
        lifecycle.happened(ahead, event)
    return ahead


def forecast_answer(ahead: Situation, action: Action) -> Forecast | None:
    """Write the answer of an action that goes well, if all that matters of it is known; what a re-read finds is not."""
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
        case UpdateContainerResources():
            return Forecast(RuntimeResources())
        case _:
            says_nothing = ACTIONS[type(action)].result is None and not is_endless(action)
            return Forecast(None) if says_nothing else None


def started(ahead: Situation, start: StartContainer) -> RuntimeContainer:
    """Write what the runtime would tell of a container that starts now."""
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
    """Write what the runtime would tell of a container that ends now."""
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
    """Say what would follow if a container that runs ended now with this code."""
    ahead = apart(situation)
    facts = ahead.observed.containers[container.name]
    instance_seen(ahead, facts, ended(ahead, container.name, facts.container_id, exit_code))
    if lifecycle.next_event(ahead) is Event.POD_FINISHED:
        for name in live_containers(ahead):  # sidecars, which are stopped then
            last = ahead.observed.containers[name]
            instance_seen(ahead, last, ended(ahead, name, last.container_id, TERMINATED_BY_SIGTERM))
        return AfterEnd(phase=pod_status(ahead).phase or "")
    begins = tuple(one for one in pod_actions(ahead).begin if isinstance(one, StartContainer | StopContainer))
    if standing(ahead, container) is not Standing.WANTED:
        return AfterEnd(begins=begins)
    at = starts_at(facts) or ahead.now
    return AfterEnd(max(at - ahead.now, timedelta()), next_attempt(facts))
