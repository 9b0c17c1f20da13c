"""The answer of the query Explain: what a pod waits for and what would happen next, in sentences.

Derived from the same facts and the same plan that the workflow acts on. The reader (`worker/commands/show/explain.py`) adds
what only Temporal knows: the tries of an activity, that no worker answers, how far away a time is.
"""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Final

from kubernetes.client.models.v1_container import V1Container
from kubernetes.client.models.v1_pod_status import V1PodStatus

from proto.temporal.activities.requests import PullImage, ReadPodRuntime, RunPodSandbox, StartContainer, StopContainer
from proto.temporal.operator import Explanation, Sentence, SentenceKind
from proto.temporal.pod import ContainerState, Exit, Lifecycle
from workflows.decide.actions import Action, Wake, holds_reread, is_endless
from workflows.decide.containers.backoff import next_backoff, starts_at
from workflows.decide.containers.init_containers import ends_by_itself, init_failed
from workflows.decide.containers.standing import Standing, standing
from workflows.decide.containers.targets import lacks_target
from workflows.decide.containers.termination_order import live_containers
from workflows.decide.ending.grace import SHORTEST, effective_grace
from workflows.decide.explain.forecast import AfterEnd, after_end_of, if_all_goes_well
from workflows.decide.keys import SANDBOX_KEY, container_key
from workflows.decide.operator.skips import waiting_backoffs
from workflows.decide.resources.allocation import must_grow
from workflows.decide.situation import ImageRequest, Situation
from workflows.decide.status.status import pod_status, pod_summary
from workflows.decide.status.unready import unready_words, waits_for_gates
from workflows.decide.steps.claims import awaits_claims
from workflows.decide.steps.containers import next_in_line
from workflows.decide.steps.images import image_action_key, is_unread, pulls_at
from workflows.decide.steps.pod_actions import answers
from workflows.decide.volumes.mounts import unmounted

Say = Callable[[Action], str]
"""Returns an action's summary in the Temporal UI."""
AHEAD: Final = 8
"""How many steps ahead are described."""


def explanation(situation: Situation, say: Say) -> Explanation:
    """Explain a pod."""
    status = pod_status(situation)
    sentences = (
        Sentence(SentenceKind.STANDS, describe_pod(situation, status), remedy=stop_remedy(situation)),
        *under_way(situation, say),
        *waits(situation),
        *held(situation, say),
        *waits_for_gates(situation, status),
        *(Sentence(SentenceKind.NEXT, text) for text in describe_next(situation, say)),
    )
    over = tuple(one.name for one in situation.all_containers if is_over(situation, one))
    lacks_claims = awaits_claims(situation)
    lifecycle = situation.observed.lifecycle.value
    return Explanation(lifecycle, status.phase or "", sentences, lacks_claims=lacks_claims, over=over)


def is_over(situation: Situation, container: V1Container) -> bool:
    """Report whether it is an init container that has ended for good, so that others use what it had."""
    return ends_by_itself(situation, container.name) and standing(situation, container) is Standing.DONE


# --- the pod's state


def describe_pod(situation: Situation, status: V1PodStatus) -> str:
    """Describe the pod as a whole."""
    observed, deletion = situation.observed, situation.observed.deletion
    if deletion and observed.lifecycle is not Lifecycle.TERMINATED:
        why = ": ".join(filter(None, (deletion.reason, deletion.message)))
        return (
            f"it is terminating, {describe_running(situation)}: {why} (grace {span(effective_grace(situation).length)})"
        )
    if observed.lifecycle is Lifecycle.TERMINATED:
        gone = "every container is down, and what is left of it is being removed"
        return f"{status.phase}: {gone if deletion else why_done(situation) + ', and its source still lists it'}"
    if observed.lifecycle is Lifecycle.TERMINATING:
        return f"{status.phase}: {why_done(situation)}, and it is being stopped"
    line = pod_summary(situation, status)
    reason = f", {'last reason ' if line.ready else ''}{line.reason}" if line.reason else ""
    return f"{status.phase} and {'ready' if line.ready else 'not ready'}, {describe_running(situation)}{reason}"


def stop_remedy(situation: Situation) -> str:
    """Say how an operator shortens the stop of a terminating pod; empty if there is nothing to shorten."""
    terminating = situation.observed.deletion or situation.observed.lifecycle is Lifecycle.TERMINATING
    if (
        not terminating
        or not live_containers(situation)
        or effective_grace(situation).over_at <= situation.now + SHORTEST
    ):
        return ""
    return f"`tempolet stop {situation.key} --grace-period N` shortens its grace period"


def why_done(situation: Situation) -> str:
    """Explain why nothing of the pod will run again although its source lists it."""
    eviction = situation.observed.eviction
    if eviction is None:
        return "it has finished"
    chosen = f"; this pod because {eviction.why}" if eviction.why else ""
    return f"{eviction.reason} ({eviction.message.strip()}{chosen})"


def describe_running(situation: Situation) -> str:
    """Say which containers run."""
    up = [one.name for one in situation.all_containers if situation.facts(one.name).state is ContainerState.RUNNING]
    return f"{', '.join(up)} {'runs' if len(up) == 1 else 'run'}" if up else "nothing of it runs"


def under_way(situation: Situation, say: Say) -> Iterator[Sentence]:
    """Describe the actions that have begun and not answered yet."""
    for about, action in situation.busy.items():
        yield Sentence(SentenceKind.UNDER_WAY, say(action), about)


# --- what is due at a known time


def waits(situation: Situation) -> Iterator[Sentence]:
    """Describe each wait with its reason, the earliest first."""
    skippable = {one.about: one.container for one in waiting_backoffs(situation)}
    wakes = [one for one in answers(situation) if isinstance(one, Wake)]
    for wake in sorted(wakes, key=lambda one: one.at):
        yield Sentence(
            SentenceKind.WAITS,
            wake.summary.removesuffix(f" at {wake.at:%H:%M:%S}"),
            wake.about,
            wake.at,
            reason_for(situation, wake.about),
            remedy(situation, skippable.get(wake.about, ""), alone=len(skippable) == 1),
        )


def reason_for(situation: Situation, about: str) -> str:
    """Explain a wait: the failure or the end that caused it."""
    if failure := situation.observed.failures.get(about):
        return f"it failed {times(failure.tries)}, the last time with {failure.reason}: {failure.message}"
    for container in situation.all_containers:
        facts = situation.facts(container.name)
        if about == container_key(container.name) and facts.exit:
            return f"it ended with {describe_end(facts.exit)}, and has ended {times(facts.attempt + 1)}"
        for asked in situation.images_needed(container):
            if about == image_action_key(situation, asked) and (image := situation.image_of(asked)).reason:
                return f"it failed with {image.reason}: {image.message}"
    return ""


def remedy(situation: Situation, container: str, *, alone: bool) -> str:
    """Say how an operator ends a back-off."""
    if not container:
        return ""
    return f"`tempolet skip-backoff {situation.key}{'' if alone else f' {container}'}` ends this wait"


# --- what is held back, and by what


def held(situation: Situation, say: Say) -> Iterator[Sentence]:
    """Describe what cannot begin yet, containers with the same reason together."""
    if text := describe_hold_of_all(situation, say):
        yield Sentence(SentenceKind.HELD, text)
        return
    reasons: dict[str, list[str]] = {}
    for container in situation.all_containers:
        if reason := describe_hold(situation, container, say):
            reasons.setdefault(reason, []).append(container.name)
    if pending := situation.observed.resize_pending:
        text = f"the resize that its source asks for is {pending.reason}: {pending.message}"
        yield Sentence(SentenceKind.HELD, text)
    yield from (
        Sentence(SentenceKind.HELD, text) for one in situation.all_containers if (text := unready_words(situation, one))
    )
    for reason, names in reasons.items():
        yield Sentence(SentenceKind.HELD, f"{', '.join(names)} {'waits' if len(names) == 1 else 'wait'} for {reason}")


def describe_hold_of_all(situation: Situation, say: Say) -> str:
    """Describe what delays everything of the pod, if anything does."""
    observed = situation.observed
    if situation.is_busy("runtime"):
        return "nothing begins before the runtime has been read"
    if observed.runtime_stale:
        others = ", ".join(say(one) for one in situation.busy.values() if holds_reread(one))
        return "nothing begins before the runtime has been read" + (f", and that waits for: {others}" if others else "")
    if observed.lifecycle is not Lifecycle.SYNC and (live := live_containers(situation)):
        return f"the sandbox stays until {', '.join(live)} {'is' if len(live) == 1 else 'are'} down"
    if observed.waiting_for:
        return f"the sandbox waits for the pod's predecessor: {observed.waiting_for}"
    return ""


def describe_hold(situation: Situation, container: V1Container, say: Say) -> str:
    """Describe what a wanted container waits for; empty if it runs, is done, starts now or waits for a time."""
    if situation.observed.lifecycle is not Lifecycle.SYNC or init_failed(situation):
        return ""
    if container_key(container.name) in situation.busy or standing(situation, container) is not Standing.WANTED:
        return ""
    if place := missing_for_all(situation):
        return place
    line = [one.name for one in next_in_line(situation)]
    if container.name not in line and container.name not in situation.ephemeral_names:
        return f"init container {line[-1]}"
    at = starts_at(situation.facts(container.name))
    if (at and at > situation.now) or container_key(container.name) in situation.observed.failures:
        return ""
    if lacking := situation.images_missing(container):
        return f"its image {lacking[0][0]}, which {describe_image(situation, lacking[0])}"
    if lack := lacks_target(situation, container.name):
        return f"its target container: {lack.message}"
    return actions_ahead(situation, container, say)


def missing_for_all(situation: Situation) -> str:
    """Describe what the pod lacks before any container can start."""
    if not situation.sandbox_id:
        return "the sandbox, which " + ("is being made" if sandbox_is_being_made(situation) else "is not ready")
    if not situation.observed.directories:
        return "the pod's directories"
    if must_grow(situation):
        return "the pod's cgroup, which must be raised first"
    return f"the pod's volumes: {', '.join(names)}" if (names := list(unmounted(situation))) else ""


def actions_ahead(situation: Situation, container: V1Container, say: Say) -> str:
    """Describe the actions of other containers that delay a container which lacks nothing."""
    now = [one for one in answers(situation) if isinstance(one, StartContainer)]
    if any(one.container["name"] == container.name for one in now):
        return ""
    starting = [*situation.starting, *(one.container["name"] for one in now)]
    if starting:
        return f"{', '.join(starting)}: containers start one at a time"
    others = [one for one in situation.busy.values() if not (isinstance(one, PullImage) or is_endless(one))]
    return ", ".join(say(one) for one in others)


def sandbox_is_being_made(situation: Situation) -> bool:
    """Report whether a sandbox is being made."""
    return isinstance(situation.busy.get(SANDBOX_KEY), RunPodSandbox)


def describe_image(situation: Situation, asked: ImageRequest) -> str:
    """Describe why an image is missing."""
    image = situation.image_of(asked)
    if image_action_key(situation, asked) in situation.busy:
        return "is being pulled"
    if is_unread(situation, *asked):
        return "is looked for"
    if (at := pulls_at(image)) and at > situation.now:
        return f"could not be pulled: {image.reason}"
    return "is not there yet"


# --- what would happen next


def describe_next(situation: Situation, say: Say) -> Iterator[str]:
    """Describe what happens if all goes well, if a waiting container ends again, and if a running one ends."""
    observed = situation.observed
    steps = list(if_all_goes_well(situation))
    if steps:
        ahead = ", then ".join(say(one) for one in steps[:AHEAD])
        yield f"if all goes as planned: {ahead}{', and so on' if len(steps) > AHEAD else ''}"
    if observed.deletion:
        yield (
            "then it starts again, because its source lists it again"
            if observed.listed_again
            else "then its workflow ends"
        )
    elif observed.lifecycle is not Lifecycle.SYNC:
        yield "it stays like that until its source no longer lists it; then its containers, sandbox, directories and logs are removed"
    elif any(isinstance(one, ReadPodRuntime | StopContainer) for one in situation.busy.values()):
        return
    else:
        yield from after_ends(situation, say)


def after_ends(situation: Situation, say: Say) -> Iterator[str]:
    """Describe what the end of each container would lead to, if it runs or is about to."""
    for one in waiting_backoffs(situation):
        if one.attempt:
            maximum = situation.settings.max_container_restart_period
            earned = next_backoff(situation.facts(one.container), situation.now, maximum)
            yield f"if {one.container} then ends within ten minutes, it waits {span(earned.delay or timedelta())}"
    for container in situation.all_containers:
        if standing(situation, container) is Standing.UP and container_key(container.name) not in situation.busy:
            well, badly = (after_end_of(situation, container, code) for code in (0, 1))
            if well == badly:
                yield f"if {container.name} ended now, {describe_after(well, say)}"
            else:
                yield f"if {container.name} succeeded now, {describe_after(well, say)}"
                yield f"if {container.name} failed now, {describe_after(badly, say)}"


def describe_after(after: AfterEnd, say: Say) -> str:
    """Describe what would follow an end."""
    if after.phase:
        return f"the pod would be finished: {after.phase}"
    if after.restarts_after is not None:
        delay = f"after {span(after.restarts_after)}" if after.restarts_after else "at once"
        return f"it would be restarted {delay} (restart {after.attempt})"
    return (
        f"next would come: {', '.join(say(one) for one in after.begins)}"
        if after.begins
        else "it would not be restarted"
    )


# --- words


def describe_end(end: Exit) -> str:
    """Describe how a container ended."""
    return f"exit {end.exit_code} {end.reason}".rstrip() + (f" ({end.message.strip()})" if end.message.strip() else "")


def times(count: int) -> str:
    """Write a count."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def span(duration: timedelta) -> str:
    """Write a duration."""
    return f"{duration.total_seconds():g} s"
