"""`tempolet history NAMESPACE/POD`: a pod's history with times and durations, even after the pod is gone.

Finds the pod's workflows by search attributes (several if the pod was created again with another UID), fetches the
histories of all their runs, decrypts the payloads with the node's keys, and formats them with `worker/history`. What
happened while Temporal is away is in this node's journal, and is told without Temporal.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from temporalio.api.history.v1 import History
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from worker.commands.access.journaled_pods import journaled_pods, untold_of
from worker.commands.access.node_view import NodeView, notes, short_age
from worker.commands.access.pod_runs import Events, histories_of
from worker.commands.access.pod_selection import FoundPod, PodSelector, find_pods
from worker.commands.access.temporal_access import NoAnswer, client_of, decrypt_payloads
from worker.commands.access.unknown_pod import full_name, refusals_of, suggestion
from worker.daemon.config import NodeConfig
from worker.documents.printable import printable
from worker.history.failures import describe_failure
from worker.history.sentences.story_state import Line, seconds
from worker.history.story import build_story
from worker.telemetry.workflow_engine import workflow_engine
from worker.temporal.executions import describe_execution

ENGINE_WITHIN: Final = timedelta(seconds=1)
"""How long the worker may take to say whether Temporal is away."""
REST_WAITS: Final = "Temporal is away: this is what the node itself knows of the pod; the rest of its history waits until Temporal is back"
_UNREACHABLE: Final = frozenset({RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED})


def show(config: NodeConfig, selector: PodSelector, *, output: str) -> None:
    """Print the history of the newest pod of that name, of the one with the UID, or of all."""
    lives = asyncio.run(_find_anywhere(config, selector))
    if output == "json":
        print(json.dumps([as_json(life) for life in lives], indent=2))
        return
    for number, life in enumerate(lives):
        print(("\n" if number else "") + heading(life))
        for text in rows(life.story.lines, wide=output == "wide"):
            print(text)
        for text in life.under_way:
            print(f"now: {printable(text)}")
    if any(not life.runs for life in lives):
        print(REST_WAITS)
    for note in notes(NodeView(refusals=refusals_of(config, selector.namespace, selector.name))):
        print(printable(note))


async def _find_anywhere(config: NodeConfig, selector: PodSelector) -> list[FoundPod]:
    """Find the pods in Temporal, or in the node's journal while Temporal is away."""
    engine = await workflow_engine(config.state_dir, ENGINE_WITHIN)
    if engine is not None and engine.away_since and not engine.name_taken and (lives := _journaled(config, selector)):
        return lives
    try:
        return await _find(config, selector)
    except NoAnswer as away:
        lives = _journaled(config, selector)
        if not lives:
            full = replace(selector, name=full_name(config, selector.name))
            known = bool(journaled_pods(config, full))
            instead = suggestion(config, selector.namespace, selector.name, full_name_known=known)
            more = f"; {instead}" if instead else ""
            raise NoAnswer(f"{away}. This node's own journal has no pod {selector}{more}") from away
        return lives
    except RPCError as error:
        if error.status not in _UNREACHABLE or not (lives := _journaled(config, selector)):
            raise
        return lives


def _journaled(config: NodeConfig, selector: PodSelector) -> list[FoundPod]:
    found = journaled_pods(config, selector)
    now = datetime.now(UTC)
    for life in found:
        life.under_way = [f"{one.what} under way for {seconds(now - one.since)}" for one in life.story.under_way]
    return found


async def _find(config: NodeConfig, selector: PodSelector) -> list[FoundPod]:
    client = await client_of(config)
    chosen = await find_pods(client, config, selector)
    for life in chosen:
        untold = untold_of(config, life.workflow_id)  # first: what is told in between is in the history
        life.story = build_story(await _histories(client, config, life), untold)
        if life.story.ended_at is None:
            life.under_way = await _under_way(client, config, life)
    return chosen


async def _histories(client: Client, config: NodeConfig, life: FoundPod) -> list[Events]:
    async def fetch(run_id: str) -> Events:
        history = await client.get_workflow_handle(life.workflow_id, run_id=run_id).fetch_history()
        opened = History(events=history.events)
        decrypt_payloads(opened, config, client.namespace)
        return opened.events

    return await histories_of(life.runs, fetch)


async def _under_way(client: Client, config: NodeConfig, life: FoundPod) -> list[str]:
    """Report what the pod waits for now: the attempts of an activity are not in the history."""
    described = await describe_execution(client, life.workflow_id)
    pending = {one.activity_id: one for one in described.pending_activities}
    said = []
    for one in life.story.under_way:
        text = f"{one.what} under way for {seconds(datetime.now(UTC) - one.since)}"
        known = pending.get(one.activity_id)
        if known is not None and known.attempt > 1:
            decrypt_payloads(known, config, client.namespace)
            text += f" (try {known.attempt}, after {describe_failure(known.last_failure)})"
        said.append(text)
    return said


def heading(life: FoundPod) -> str:
    """Format which pod this is and its age."""
    pod, lines, ended_at = life.pod, life.story.lines, life.story.ended_at
    if not life.runs:
        return f"{pod.namespace}/{pod.name} on {pod.node}, UID {pod.uid}" + (", gone" if ended_at else "")
    began = lines[0].at if lines else life.newest
    age = short_age((ended_at or datetime.now(UTC)) - began)
    state = f"for {age}" if ended_at is None else f"gone after {age}"
    return f"{pod.namespace}/{pod.name} on {pod.node}, UID {pod.uid}, {state}"


def rows(lines: Sequence[Line], *, wide: bool) -> list[str]:
    """Format the lines with local time and seconds since the first, and the date when it changes."""
    said = []
    day = None
    for line in lines:
        local = line.at.astimezone()
        if local.date() != day:
            day = local.date()
            said.append(f"{day.isoformat()} ({local:%Z})")
        elapsed = f"{line.since_start.total_seconds():+.3f}"
        event = f"{line.run or '-'}/{line.event_id or '-':<5}" if wide else ""
        text = ("  " if line.while_away else "") + printable(line.text)
        said.append(f"{local:%H:%M:%S}.{local.microsecond // 1000:03d} {elapsed:>10} {event} {text}".rstrip())
    return said


def as_json(life: FoundPod) -> dict[str, object]:
    """Return one pod as JSON."""
    return {
        "workflowId": life.workflow_id,
        "node": life.pod.node,
        "uid": life.pod.uid,
        "open": life.story.ended_at is None,
        "restWaitsForTemporal": not life.runs,
        "underWay": life.under_way,
        "lines": [
            {
                "time": line.at.isoformat(),
                "sinceStartSeconds": round(line.since_start.total_seconds(), 6),
                "text": line.text,
                "eventId": line.event_id,
                "run": line.run,
                "whileTemporalWasAway": line.while_away,
            }
            for line in life.story.lines
        ],
    }
