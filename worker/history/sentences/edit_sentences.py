"""Sentences about a pod that is listed again or edited at its source."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from proto.pod_snapshot import FINAL_PHASES
from proto.temporal.names import API_SOURCE
from proto.temporal.resources import PendingResize
from proto.temporal.signals import PodListed
from worker.history.sentences.container_sentences import redefined
from worker.history.sentences.story_state import StoryState
from workflows.decide.manifest.hook_terms import without_new_hooks
from workflows.decide.record.updates import Change, changes, needs_another_pod
from workflows.decide.resources.resources import INFEASIBLE, granted
from workflows.decide.versions import HOOKS_AS_FIRST_TAKEN


def listed(state: StoryState, signal: PodListed) -> Iterator[str]:
    """Report what a listing changes; nothing if it is the first one, or was repeated by a restarted poller."""
    if state.deletion:
        yield f"listed again by {signal.source}"
        return
    of_api = signal.source == API_SOURCE
    if signal.pod is not None and of_api and state.behaviour >= HOOKS_AS_FIRST_TAKEN:
        signal = replace(signal, pod=without_new_hooks(state.pod, signal.pod) if state.pod else signal.pod)
    if signal.pod is not None and not state.pod:
        state.pod = signal.pod  # nothing is known of what was before
    elif signal.pod is not None and (found := changes(state.pod, signal.pod, pod_level=signal.resize is not None)):
        what = "pod" if of_api else "manifest"
        yield f"{what} changed: {', '.join(one.words for one in found)}{what_becomes(state, signal, found)}"
    if signal.resize:
        yield from pending_resize(state, signal.resize.pending)


def pending_resize(state: StoryState, pending: PendingResize | None) -> Iterator[str]:
    """Report a resize that the node does not grant, once for each of its answers."""
    before, state.resize_pending = state.resize_pending, (pending.reason, pending.generation) if pending else None
    if pending and before != state.resize_pending:
        yield f"its source asks for a resize, which is {pending.reason}: {pending.message}; its resources stay as they are"


def what_becomes(state: StoryState, signal: PodListed, found: Sequence[Change]) -> str:
    """Describe what happens with an edit that is not simply applied."""
    if not signal.in_place:
        return "; the pod is replaced"
    if signal.source != API_SOURCE and (why := needs_another_pod(found)):
        return f"; the pod is replaced, because {why} cannot be changed in place"
    if state.phase in FINAL_PHASES:
        return "; ignored, because the pod has finished"
    if signal.pod is None:
        return ""
    if signal.resize:
        redefined(state, signal.pod)
        return ""
    pod, refused = granted(state.pod, signal.pod, state.settings.allocatable)
    redefined(state, pod)
    return f"; its resources stay as they are, because the resize is {INFEASIBLE}: {refused}" if refused else ""
