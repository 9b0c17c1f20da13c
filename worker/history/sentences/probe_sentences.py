"""Sentences about probe results."""

from collections.abc import Iterator

from proto.temporal.pod import ProbeKind
from proto.temporal.signals import ProbeVerdict
from worker.history.sentences.story_state import StoryState


def verdict(state: StoryState, signal: ProbeVerdict) -> Iterator[str]:
    """Report a verdict, once if it is told anew after a switch between Temporal and the node."""
    told = state.verdicts.get((signal.container_id, signal.probe))
    state.verdicts[signal.container_id, signal.probe] = signal
    if told is None or told.success != signal.success or told.turns < signal.turns:
        yield describe_verdict(signal)


def describe_verdict(verdict: ProbeVerdict) -> str:
    """Describe a probe result, with the probe's output if it failed, and how often it changed until then."""
    flapped = f" (changed {verdict.turns} times since it was last recorded)" if verdict.turns > 1 else ""
    return _words(verdict) + flapped


def _words(verdict: ProbeVerdict) -> str:
    output = verdict.message.strip()
    why = f": {output}" if output else ""
    match verdict.probe, verdict.success:
        case ProbeKind.READINESS, True:
            return f"container {verdict.container} is ready"
        case ProbeKind.READINESS, False:
            return f"container {verdict.container} is not ready, its readiness probe failed{why}"
        case probe, True:
            return f"container {verdict.container} passed its {probe.value} probe"
        case probe, _:
            return f"container {verdict.container} failed its {probe.value} probe{why}"
