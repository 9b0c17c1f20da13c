"""What this node's journal has of pods, for `tempolet history`: what Temporal does not know yet, and which pods are gone.

The worker writes the journal; it is read here without Temporal and without the worker.
"""

import contextlib
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from proto.temporal.away import WhileAway
from proto.temporal.names import PodWorkflowId
from proto.temporal.pod import PodStart
from worker.commands.access.exits import CommandFailed
from worker.commands.access.pod_selection import FoundPod, PodSelector, choose
from worker.daemon.config import NodeConfig
from worker.history.sentences import table
from worker.history.sentences.story_state import Line, Story
from worker.history.story import build_story
from worker.history.while_away import Untold
from worker.stand_in.journal import kept
from worker.stand_in.journal.reading import JournalReader
from worker.temporal.keys import KeyFile
from worker.temporal.private_files import KeyFileRefused

_UNKNOWN: Final = datetime.min.replace(tzinfo=UTC)


def untold_of(config: NodeConfig, workflow_id: str) -> Untold | None:
    """Return what Temporal may not know yet of a pod; None if there is nothing, or it cannot be read."""
    reader = _reader(config)
    return _untold(reader, workflow_id, None) if reader else None


def journaled_pods(config: NodeConfig, selector: PodSelector) -> list[FoundPod]:
    """Return the selected pods as the journal has them; empty if it has none of them: Temporal may know more."""
    reader = _reader(config)
    found = list(_found(reader, selector)) if reader else []
    with contextlib.suppress(CommandFailed):
        return choose(found, selector) if found else []
    return []


def _found(reader: JournalReader, selector: PodSelector) -> Iterator[FoundPod]:
    with _warnings_to_stderr():
        gone, living = reader.gone(), reader.kept()
    for one in gone.values():
        if _is_meant(one.workflow_id, selector):
            story = Story((Line(one.at, one.at - one.at, table.pod_gone(one.outcome), run=0),), ended_at=one.at)
            yield FoundPod(one.workflow_id, one.at, story=story)
    for pod in living:
        if pod.workflow_id in gone or not isinstance(pod.start, PodStart) or not _is_meant(pod.workflow_id, selector):
            continue
        began = pod.start.observed.started_at if pod.start.observed else None
        story = build_story([], _untold(reader, pod.workflow_id, pod.start))
        yield FoundPod(pod.workflow_id, began or _UNKNOWN, story=story)


def _is_meant(workflow_id: str, selector: PodSelector) -> bool:
    try:
        pod = PodWorkflowId.parse(workflow_id)
    except ValueError:
        return False  # the node's own
    return (pod.namespace, pod.name) == (selector.namespace, selector.name) and selector.node in (None, pod.node)


def _untold(reader: JournalReader, workflow_id: str, start: PodStart | None) -> Untold | None:
    with _warnings_to_stderr():
        story = reader.entries(workflow_id)
    groups: list[list[kept.NumberedEntry]] = []
    for one in story.entries:
        if not groups or one.position != groups[-1][-1].position + 1:
            groups.append([])
        groups[-1].append(one)
    since = story.entries[0].entry.at if story.entries else None
    left_out = sum(story.left_out.counts.values())
    parts = [WhileAway(0, each[0].position, tuple(one.entry for one in each), since=since) for each in groups]
    if left_out:
        parts.append(WhileAway(0, story.left_out.position, (), left_out, since))
    return Untold(tuple(parts), start) if parts else None


def _reader(config: NodeConfig) -> JournalReader | None:
    """Return the reader; None without keys, with which nothing could be read."""
    with contextlib.suppress(KeyFileRefused, OSError):
        return JournalReader(config.state_dir, KeyFile(config.payload_key_file))
    return None


def _warnings_to_stderr() -> contextlib.AbstractContextManager[object]:
    """Keep what the journal's modules log apart from what the command prints."""
    return contextlib.redirect_stdout(sys.stderr)
