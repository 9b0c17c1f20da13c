"""Sentences about containers: why each was started, restarted or stopped, and how it ended.

Called by `table` for activities that start and stop containers. Everything comes from the workflow history: a stop
request holds its reason, its grace period and its start time, the response how the container ended.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from proto.temporal.activities.requests import (
    RemoveContainer,
    RuntimeContainer,
    ShortenStop,
    StartContainer,
    StopContainer,
)
from proto.temporal.operator import BackoffsSkipped, EphemeralContainerAdded
from proto.temporal.pod import ContainerFacts, ContainerState, Observed, PodJson
from worker.history.sentences.restart_reasons import Beginning, end_words, restart_words, rule_for
from worker.history.sentences.story_state import CompletedActivity, ContainerStory, StoryState, seconds
from workflows.decide.containers.backoff import Backoff, after_restart
from workflows.decide.containers.definitions import containers_of, resets_backoff
from workflows.decide.containers.restart import RuleAction
from workflows.decide.hooks.hooks import FAILED
from workflows.decide.manifest.hook_terms import OWN_HOOKS

SIGKILLED: Final = 137
IDENTITY: Final = 12
"""Leading characters of an id that are shown, as in crictl."""
HAS_RUN: Final = frozenset({ContainerState.RUNNING, ContainerState.EXITED})
RESTART_ALL: Final = RuleAction.RESTART_ALL.value
EARLY: Final = timedelta(milliseconds=100)
"""Tolerance for a SIGKILL that seems to arrive before the end of the grace period: the two times come from two clocks.
"""


def started(state: StoryState, done: CompletedActivity) -> Iterator[str]:
    """Report a start; for a restart also its cause and back-off."""
    asked: StartContainer = done.asked
    seen: RuntimeContainer = done.answer
    if seen.container_id in state.started:  # Temporal and the node both learn it if an outage begins meanwhile
        state.of(seen.name).is_starting = False
        yield from ends(state, [seen])
        return
    beginning = Beginning(asked.container, asked.sandbox_id, asked.sandbox_spec, done.at)
    yield _told_start(state, seen, beginning, seconds(start_took(done))) + ignored_stop_signal(asked, seen)
    yield from ends(state, [seen])


def starts(state: StoryState, asked: StartContainer) -> None:
    """Remember that a start is asked for: what the runtime shows meanwhile is told by its answer."""
    state.of(asked.container.get("name", "")).is_starting = True


def start_failed(state: StoryState, asked: StartContainer) -> None:
    """Record that no answer comes: the next try runs the hooks again, and the container may run all the same."""
    known = state.of(asked.container.get("name", ""))
    known.is_starting = False
    known.prepared.clear()


def found(state: StoryState, containers: Iterable[RuntimeContainer], at: datetime) -> Iterator[str]:
    """Report containers that the runtime shows at this time, and whose starts were not told: Temporal went away before it had the answers."""
    for one in sorted(containers, key=lambda seen: seen.attempt):
        known = state.of(one.name)
        if known.is_starting or one.container_id == known.container_id or one.sandbox_id not in state.ready_sandboxes:
            continue
        if one.container_id in state.started or one.container_id in state.ended or one.state not in HAS_RUN:
            continue
        container = next((spec for spec in containers_of(state.pod) if spec["name"] == one.name), {})
        beginning = Beginning(container, one.sandbox_id, state.pod, one.started_at or at)
        yield _told_start(state, one, beginning, "found in the runtime")


def _told_start(state: StoryState, seen: RuntimeContainer, beginning: Beginning, how: str) -> str:
    known = state.of(seen.name)
    known.is_starting = False
    state.started.add(seen.container_id)
    again = f", restart {seen.attempt}" if seen.attempt else ""
    new_instance(state, known, seen)
    why = restart_words(known.before, beginning) if seen.attempt and known.before else ""
    known.sandbox_id, known.spec = beginning.sandbox_id, beginning.container
    return f"container {seen.name} started{again} ({how}){why}"


def ignored_stop_signal(asked: StartContainer, seen: RuntimeContainer) -> str:
    """Report that the runtime ignores the configured stop signal."""
    wanted = (asked.container.get("lifecycle") or {}).get("stopSignal", "")
    if wanted in ("", seen.stop_signal):
        return ""
    instead = seen.stop_signal or "its image's, or SIGTERM"
    return f"; the runtime ignores its stopSignal {wanted}: {instead} will stop it"


def start_took(done: CompletedActivity) -> timedelta:
    """Return how long a start took by the runtime's clock: the activity may have waited longer, for an early exit."""
    begun_at = done.answer.started_at
    return min(done.took, max(begun_at - done.at, timedelta())) if done.asked.end_within and begun_at else done.took


def new_instance(state: StoryState, known: ContainerStory, seen: RuntimeContainer) -> None:
    """Record a container's newest instance; the end of the previous one adds to the back-off, as in the workflow."""
    if known.container_id == seen.container_id:
        return
    known.before = replace(known, before=None)
    if known.container_id and known.restarted_for in (
        "",
        seen.name,
    ):  # containers restarted along with another do not add to their back-off
        begun_at = seen.created_at or seen.started_at or seen.finished_at
        ended_at = known.end.finished_at if known.end else begun_at
        if begun_at and ended_at:
            maximum = state.settings.max_container_restart_period
            known.backoff = after_restart(known.backoff, ended_at, begun_at, maximum)
    known.container_id, known.end, known.stopped_because = seen.container_id, None, ""
    known.skipped_by = known.restarted_for = ""


def continued(state: StoryState, observed: Observed | None) -> bool:
    """Take over the state that a run starts with; the history of the previous run may be gone.

    Returns whether nothing of the pod is known: it begins, or starts over.
    """
    for known in state.containers.values():
        known.is_starting = False  # a run takes over no start
    if observed is None or is_blank(observed):
        state.containers.clear()
        state.deletion = False
        state.deletions.clear()
        return True
    for name, facts in observed.containers.items():
        known = state.of(name)
        if known.container_id != facts.container_id:
            known.before = None
        known.container_id, known.sandbox_id = facts.container_id, facts.sandbox_id
        known.backoff = Backoff(facts.backoff, facts.backoff_at)
    return False


def backoffs_end(state: StoryState) -> None:
    """Record that the machine was restarted: no container waits any longer."""
    for known in state.containers.values():
        known.backoff = Backoff()


def is_blank(observed: Observed) -> bool:
    """Report whether a run starts with restart counts and numbers of signals, and with nothing else."""
    blank = Observed(started_at=observed.started_at, heard=observed.heard, containers=observed.containers)
    return observed == blank and all(
        facts == ContainerFacts(attempt=facts.attempt) for facts in observed.containers.values()
    )


def redefined(state: StoryState, pod: PodJson) -> None:
    """Record an edit of the pod; a container with a new image or resources starts with a fresh back-off."""
    for before, after in zip(containers_of(state.pod), containers_of(pod), strict=True):
        if resets_backoff(before, after):
            state.of(after["name"]).backoff = Backoff()
    state.pod = pod


def removed(state: StoryState, done: CompletedActivity) -> Iterator[str]:
    """Report the removal of a dead instance; removing the newest is the first half of restarting all containers."""
    asked: RemoveContainer = done.asked
    known = state.of(asked.name)
    if asked.container_id == known.container_id:
        asks = (
            name for name, one in state.containers.items() if one.end and rule_for(one.spec, one.end) == RESTART_ALL
        )
        known.restarted_for = known.restarted_for or next(asks, "")
    yield f"dead instance {asked.container_id[:IDENTITY]} of container {asked.name} removed ({seconds(done.took)})"


def hook_ended(_: StoryState, done: CompletedActivity) -> Iterator[str]:
    """Report how a lifecycle hook ended, and whether it was repeated after an attempt with unknown result."""
    asked, end = done.asked, done.answer
    again = ", repeated, because the result of an earlier try is not known" if end.again else ""
    which = f"{asked.hook} of {asked.name}" + (f" {asked.reason}" if asked.hook in OWN_HOOKS else "")
    tries = f", at try {end.tries}" if end.tries > 1 else ""
    if end.succeeded:
        yield f"{which} done in {seconds(done.took)}{tries}{again}"
    else:
        yield f"{which} failed after {seconds(done.took)}: {FAILED[asked.hook]}: {end.message}{tries}{again}"


def stopped(state: StoryState, done: CompletedActivity) -> Iterator[str]:
    """Report a stop: how the container ended, the grace period it used, who asked, its termination message."""
    asked: StopContainer | ShortenStop = done.asked
    end: RuntimeContainer | None = done.answer
    known = state.of(asked.name)
    who = state.deleted_by.get(asked.reason)
    why = f"why: {asked.reason}" + (f" (asked by {who})" if who else "")
    if end is None or end.state is not ContainerState.EXITED:
        yield f"container {asked.name} stopped in {seconds(done.took)}, how it ended is not known; {why}"
        return
    if known.stopped_because and end.container_id == known.container_id:
        return  # reported by the other of two stops: both return the same end
    if end.container_id in state.ended:
        yield f"container {asked.name} had ended before it was stopped; {why}"
        return
    if end.finished_at and end.finished_at < asked.asked_at:
        yield from ends(state, [end])
        return
    remember(state, known, end)
    known.stopped_because = asked.reason
    yield f"container {asked.name} stopped: {end_words(end)}, {grace_words(counting(known, asked, end), end, done.took)}; {why}{last_words(end)}"


def shortened(state: StoryState, done: CompletedActivity) -> Iterator[str]:
    """Report that a stop under way was given a shorter grace period, and how the container ended."""
    yield f"the stop of container {done.asked.name} was shortened to {seconds(done.asked.grace)} of grace"
    yield from stopped(state, done)


def is_shortened(state: StoryState, asked: ShortenStop) -> None:
    """Remember the shortest grace period requested for a stop under way: the stop itself may complete first."""
    known = state.of(asked.name)
    if counting(known, asked, None) is asked:
        known.shortened = asked


def counting(
    known: ContainerStory, asked: StopContainer | ShortenStop, end: RuntimeContainer | None
) -> StopContainer | ShortenStop:
    """Return the stop with the earliest deadline among those requested before the container ended."""
    other = known.shortened
    if other is None or other.container_id != asked.container_id:
        return asked
    if end and end.finished_at and end.finished_at < other.asked_at:
        return asked
    return min(asked, other, key=lambda one: one.asked_at + one.grace)


def grace_words(asked: StopContainer | ShortenStop, end: RuntimeContainer, took: timedelta) -> str:
    """Describe how much of the grace period was used, and whether SIGKILL was needed."""
    used = end.finished_at - asked.asked_at if end.finished_at else took
    if end.exit_code == SIGKILLED and used >= asked.grace - EARLY:
        return f"by SIGKILL after its grace of {seconds(asked.grace)}"
    return f"after {seconds(max(used, timedelta()))} of {seconds(asked.grace)} grace"


def ends(state: StoryState, containers: Iterable[RuntimeContainer]) -> Iterator[str]:
    """Report each container's end once, in the order in which they ended."""
    for one in sorted(containers, key=lambda seen: (seen.finished_at is None, str(seen.finished_at), seen.attempt)):
        if one.state is not ContainerState.EXITED or one.container_id in state.ended:
            continue
        remember(state, state.of(one.name), one)
        lasted = max(one.finished_at - one.started_at, timedelta()) if one.finished_at and one.started_at else None
        ran = f" after {seconds(lasted)}" if lasted is not None else ""
        foreign = " (SIGKILL not sent by tempolet)" if one.exit_code == SIGKILLED and one.reason == "Error" else ""
        yield f"container {one.name} ended: {end_words(one)}{foreign}{ran}{last_words(one, ': ')}"


def remember(state: StoryState, known: ContainerStory, end: RuntimeContainer) -> None:
    """Record an end as reported, for the sentence about the next start."""
    state.ended.add(end.container_id)
    new_instance(state, known, end)
    known.end = end


def last_words(end: RuntimeContainer, before: str = "; termination message: ") -> str:
    """Return a container's termination message."""
    return f"{before}{end.message.strip()}" if end.message.strip() else ""


def skipped(state: StoryState, answer: BackoffsSkipped) -> Iterator[str]:
    """Report which back-offs an operator skipped."""
    for one in answer.skipped:
        what = f"{one.image} ({one.reason})" if one.image else one.container
        if not one.image:
            state.of(one.container).skipped_by = answer.operator
        yield f"operator {answer.operator} skipped the back-off of {what} ({seconds(one.left)} left)"
    if not answer.skipped:
        yield f"operator {answer.operator} asked to skip a back-off that had already ended"


def added(_: StoryState, answer: EphemeralContainerAdded) -> Iterator[str]:
    """Report that an operator added an ephemeral container."""
    into = f", to see the processes of {answer.target}" if answer.target else ""
    waits = f" ({answer.waits_for})" if answer.waits_for else ""
    yield f"operator {answer.operator} added ephemeral container {answer.container} of {answer.image}{into}{waits}"
