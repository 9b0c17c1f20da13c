"""Sentences about Updates by an operator: who asked and what changed. Read by `story`; a new Update is one row here."""

from collections.abc import Iterator, Mapping
from typing import Final

from proto.temporal import names
from proto.temporal.operator import BackoffsSkipped, ConditionSet, EphemeralContainerAdded, PodEvicted, PodStops
from worker.history.sentences import container_sentences
from worker.history.sentences.story_state import StoryState, seconds
from worker.history.sentences.table import SignalRow


def _condition_set(_: StoryState, answer: ConditionSet) -> Iterator[str]:
    before = f"it was {answer.before}" if answer.before else "it had none"
    why = ": ".join(filter(None, (answer.reason, answer.message)))
    text = f"operator {answer.operator} set condition {answer.type} to {answer.status}, {before}"
    yield text + (f" ({why})" if why else "")


def _stop_shortened(_: StoryState, answer: PodStops) -> Iterator[str]:
    text = f"operator {answer.operator} asked to stop it within {seconds(answer.asked)}"
    if answer.sooner:
        yield f"{text}: its grace period ends {seconds(answer.sooner)} sooner, SIGKILL at {answer.kills_at.astimezone():%H:%M:%S}"
    else:
        yield f"{text}, but its grace period ends before that anyway"


def _evicted(state: StoryState, answer: PodEvicted) -> Iterator[str]:
    who = f"operator {answer.operator}" if answer.operator else "the node"
    state.deleted_by[f"{answer.reason}: {answer.message}"] = who
    killed = f"grace {seconds(answer.grace)}, SIGKILL at {answer.kills_at.astimezone():%H:%M:%S}"
    yield f"{who} evicted the pod: {answer.reason}: {answer.message.strip()} ({killed})"
    if answer.why:
        yield f"the node chose this pod because {answer.why}"


UPDATES: Final[Mapping[str, SignalRow]] = {
    names.SKIP_BACKOFF: SignalRow(BackoffsSkipped, container_sentences.skipped),
    names.SET_CONDITION: SignalRow(ConditionSet, _condition_set),
    names.STOP_POD: SignalRow(PodStops, _stop_shortened),
    names.EVICT_POD: SignalRow(PodEvicted, _evicted),
    names.ADD_EPHEMERAL_CONTAINER: SignalRow(EphemeralContainerAdded, container_sentences.added),
}
"""The sentence for each Update's response. A rejected Update is not in the history."""
