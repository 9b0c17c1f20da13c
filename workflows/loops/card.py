"""The current details that the Temporal UI shows of a pod: a few lines of Markdown.

Written by `publish` after each decision. It is not in the history: the UI queries the workflow for it. Text from a
container or the runtime (a termination message, an error) is shown as code, so that it cannot pass for our own text, a
link or an image.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from kubernetes.client.models.v1_container_state import V1ContainerState
from kubernetes.client.models.v1_container_state_terminated import V1ContainerStateTerminated
from kubernetes.client.models.v1_container_status import V1ContainerStatus
from kubernetes.client.models.v1_pod_status import V1PodStatus

from proto.temporal.dropped import DroppedSignals
from proto.temporal.operator import Explanation, Sentence, SentenceKind
from proto.temporal.pod_inputs import HandBack
from workflows.decide.actions import Action
from workflows.decide.refusal import Refusal
from workflows.decide.status.status import PodSummary
from workflows.loops.calls import summary

MESSAGE_LIMIT: Final = 600
"""Characters of a message. A termination message may have 4,096, and the UI passes the card on in a URL."""
HARD_BREAK: Final = "  \n"


def card(status: V1PodStatus, line: PodSummary, busy: Mapping[str, Action]) -> str:
    """Write the card: phase, last reason, each container, and the actions under way."""
    parts = [f"**{line.phase}**, {'ready' if line.ready else 'not ready'}, {restarts(line.restarts)}"]
    if line.reason:
        parts.append(f"{'last reason' if line.ready else 'reason'}: **{line.reason}**")
    if line.reason and line.message.strip():
        parts.append(quoted(line.message))
    parts.append("\n".join(f"- {words}" for words in container_rows(status)))
    if busy:
        parts.append("under way: " + ", ".join(code(summary(one)) for one in busy.values()))
    return "\n\n".join(parts)


def strangers_words(dropped: DroppedSignals | None, refused_requests: int = 0) -> str:
    """Describe the messages that tempolet has not written, as further paragraphs; empty if there were none."""
    words = ""
    if dropped:
        words += (
            f"\n\n**{dropped.count} malformed signal{'' if dropped.count == 1 else 's'} dropped**, "
            f"the last {code(dropped.name)} at {moment(dropped.at)}: {dropped.reason}"
        )
    if refused_requests:
        words += f"\n\n**{refused_requests} malformed update{'' if refused_requests == 1 else 's'} refused** since the worker read this history"
    return words


def outage_words(
    last: HandBack | None, led: str = "the pod", told: str = "`tempolet history` tells what happened"
) -> str:
    """Describe the last time that Temporal was away, as a further paragraph; empty if it never was.

    `led`: what the node led meanwhile; `told`: where what happened can be read.
    """
    if last is None:
        return ""
    minutes, seconds = divmod(round((last.until - last.since).total_seconds()), 60)
    length = f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
    what = f"{told} ({last.entries} entries)" if last.entries else "nothing happened"
    return f"\n\nwhile Temporal was away ({length}, until {moment(last.until)}) the node led {led}: {what}"


def with_outage(explained: Explanation, last: HandBack | None, hand_back: Refusal | None) -> Explanation:
    """Add the last outage to an explanation; while the pod is being handed back, nothing else is known of it."""
    if hand_back:
        return replace(explained, sentences=(Sentence(SentenceKind.STANDS, hand_back.message),))
    outage = [Sentence(SentenceKind.STANDS, outage_words(last).strip())] if last else []
    return replace(explained, sentences=(*explained.sentences[:1], *outage, *explained.sentences[1:]))


def container_rows(status: V1PodStatus) -> list[str]:
    """Write a row for each container: init, regular, ephemeral."""
    kinds = (
        ("init ", status.init_container_statuses),
        ("", status.container_statuses),
        ("ephemeral ", status.ephemeral_container_statuses),
    )
    return [f"{kind}`{one.name}` {container_words(one)}" for kind, found in kinds for one in found or []]


def container_words(status: V1ContainerStatus) -> str:
    """Describe a container: its state, its restarts, and how it ended before."""
    words = state_words(status.state)
    if status.restart_count:
        words += f", {restarts(status.restart_count)}"
    if status.last_state and status.last_state.terminated:
        words += f"; before: {end_words(status.last_state.terminated)}"
    return words


def state_words(state: V1ContainerState | None) -> str:
    """Describe a container's state."""
    if state and state.running:
        return f"running since {moment(state.running.started_at)}" if state.running.started_at else "running"
    if state and state.terminated:
        return f"ended: {end_words(state.terminated)}"
    return f"waiting: {state.waiting.reason}" if state and state.waiting else "unknown"


def end_words(end: V1ContainerStateTerminated) -> str:
    """Describe how a container ended."""
    at = f" at {moment(end.finished_at)}" if end.finished_at else ""
    return f"{end.reason}, exit code {end.exit_code}{at}"


def restarts(count: int) -> str:
    """Count restarts in words."""
    return f"{count or 'no'} restart{'' if count == 1 else 's'}"


def moment(time: datetime) -> str:
    """Write a time that is read days later and in another zone."""
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"


def quoted(message: str) -> str:
    """Show a message line by line as inline code, which wraps; the UI cuts off code blocks."""
    cut = message if len(message) <= MESSAGE_LIMIT else message[:MESSAGE_LIMIT] + " …"
    return HARD_BREAK.join(code(line) for line in cut.splitlines() if line.strip())


def code(text: str) -> str:
    """Show one line as inline code; backquotes cannot end it."""
    return "`" + text.replace("`", "'") + "`"
