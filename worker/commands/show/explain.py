"""`tempolet explain NAMESPACE/POD`: what a pod waits for now, and what happens next.

The workflow answers the query Explain (`workflows/decide/explain/explain.py`). Added here is what the workflow does not
know: which hardware the pod has to itself and why, the attempts of an activity, a refused manifest, a runtime that does not answer, and how long each state has
lasted.
"""

import asyncio
import contextlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse
from temporalio.client import Client, WorkflowQueryFailedError
from temporalio.service import RPCError

from proto.node_pressure import read_node_pressure
from proto.node_runtime import read_node_runtime
from proto.refusals import Refusal
from proto.temporal import names
from proto.temporal.names import PodWorkflowId
from proto.temporal.operator import Explanation, Sentence, SentenceKind
from proto.temporal.pod import PodOutcome
from worker.commands.access import temporal_access
from worker.commands.access.claimed_devices import claimed_devices
from worker.commands.access.exclusive_hardware import exclusive_hardware, has_hardware
from worker.commands.access.exits import CommandFailed, Exit
from worker.commands.access.led_pods import ask_pod, pod_here
from worker.commands.access.node_status import ask_node_status
from worker.commands.access.node_view import NodeView, notes
from worker.commands.access.pod_selection import PodSelector, find_pods
from worker.commands.access.unknown_pod import refusals_of
from worker.daemon.config import NodeConfig
from worker.daemon.node_lock import lock_holder, lock_path
from worker.delivery.lead import Message
from worker.documents.printable import printable
from worker.history.failures import describe_failure
from worker.history.sentences.story_state import seconds
from worker.history.sentences.table import pod_gone
from worker.temporal.executions import COMPLETED, PAUSED, describe_execution, is_open, status_word
from worker.temporal.interventions import paused_words, told_paused

LED_BY_WORKER: Final = (
    "the node's worker leads this pod itself, because {}; what happens meanwhile is added to its history"
)
LONGEST_REASON: Final = 400
LONGEST_WAIT: Final = 400
MOST_WAITS: Final = 20
LABELS: Final = {
    SentenceKind.STANDS: "state",
    SentenceKind.UNDER_WAY: "under way",
    SentenceKind.WAITS: "waits for",
    SentenceKind.HELD: "blocked",
    SentenceKind.NEXT: "next",
}


@dataclass(frozen=True, slots=True)
class Attempts:
    """The attempts of an activity that has not completed, as Temporal reports them."""

    number: int
    since: datetime | None
    """When the current attempt started; None while it waits for the next."""
    next_at: datetime | None
    last_failure: str = ""
    paused: str = ""
    """Who paused the activity."""
    waits: tuple[str, ...] = ()
    """What the attempt waits for, by its last heartbeat."""

    def words(self, now: datetime) -> str:
        """Describe the attempts."""
        said = f" since {self.since.astimezone():%H:%M:%S}, for {seconds(now - self.since)}" if self.since else ""
        if self.number > 1:
            said += f" (try {self.number}, after {self.last_failure})"
        if self.paused:
            return f"{said} {self.paused}; nothing comes of it until it is unpaused"
        said += f", tried again at {self.next_at.astimezone():%H:%M:%S}" if self.next_at else ""
        return said + (f"; waits until {', and until '.join(self.waits)}" if self.waits else "")


@dataclass(frozen=True, slots=True)
class Answer:
    """Everything known about a pod."""

    pod: PodWorkflowId
    gone: str = ""
    """How it ended, if it is gone."""
    paused: str = ""
    """Who paused its workflow, and what follows; then there is no explanation."""
    explanation: Explanation | None = None
    tries: dict[str, Attempts] = field(default_factory=dict)
    """By activity id, which is the key of its action."""
    led_by_worker: bool = False
    hardware: tuple[str, ...] = ()
    """What its containers have to themselves, and why."""


def show(config: NodeConfig, selector: PodSelector, *, output: str) -> None:
    """Print the explanation; raises CommandFailed if the pod is unknown or no worker answers."""
    refused = refusals_of(config, selector.namespace, selector.name)
    answer, failure = None, None
    try:
        answer = asyncio.run(_ask_of_all(config, selector))
    except CommandFailed as error:
        if not refused:
            raise
        failure = error
    remarks = list(remarks_of(config, answer, refused))
    if output == "json":
        print(json.dumps(as_json(selector, answer, remarks), indent=2))
    else:
        for line in [*(lines(answer, datetime.now(UTC)) if answer else [str(selector)]), *remarks]:
            print(printable(line))
    if (
        failure is not None and failure.code is not Exit.NOT_FOUND
    ):  # a pod with a refused manifest need not be in Temporal
        raise failure


async def _ask_of_all(config: NodeConfig, selector: PodSelector) -> Answer:
    """Ask the pod, and the node's workflow where that gives hardware."""
    answer = await _ask(config, selector)
    if answer.gone or answer.pod.node != config.node_name:
        return answer
    explained = answer.explanation or Explanation("", "")
    hardware = claimed_devices(
        config.root_dir, answer.pod.uid, lacks_claims=explained.lacks_claims, over=explained.over
    )
    if has_hardware(config.root_dir, answer.pod.uid):
        with contextlib.suppress(CommandFailed):  # the rest is known
            given = (await ask_node_status(config)).assignments.get(answer.pod.uid)
            if given:
                hardware = (*exclusive_hardware(config.root_dir, given, explained.over), *hardware)
    return replace(answer, hardware=hardware)


async def _ask(config: NodeConfig, selector: PodSelector) -> Answer:
    message = Message(pod_here(config, selector), names.EXPLAIN)
    answered = await ask_pod(
        config, message, lambda: _ask_workflow(config, selector), lambda lead, said: lead.query(said, Explanation)
    )
    if isinstance(answered, Answer):
        return answered
    if not isinstance(answered.value, Explanation):
        raise CommandFailed(f"the worker cannot explain {selector}")
    return Answer(PodWorkflowId.parse(message.workflow_id), explanation=answered.value, led_by_worker=True)


async def _ask_workflow(config: NodeConfig, selector: PodSelector) -> Answer:
    client = await temporal_access.client_of(config)
    pod = (await find_pods(client, config, selector))[-1].pod
    handle = client.get_workflow_handle(str(pod), result_type=PodOutcome)
    try:
        described = await describe_execution(client, str(pod))
        status = described.workflow_execution_info.status
        if status == COMPLETED:
            return Answer(pod, pod_gone(await handle.result()))
        if not is_open(status):
            ended = f"its workflow was {status_word(status)} from outside tempolet"
            return Answer(pod, f"{ended}: the pod's containers and volumes may still be on the node")
        if status == PAUSED:  # Temporal answers no query of it
            return Answer(pod, paused=told_paused(str(pod), described).message, tries=_tries(client, config, described))
        within = temporal_access.ANSWER_WITHIN
        explanation = await handle.query(names.EXPLAIN, result_type=Explanation, rpc_timeout=within)
    except WorkflowQueryFailedError as error:
        raise CommandFailed(f"the worker of node {pod.node} cannot explain {selector}: {error}") from error
    except RPCError as error:
        raise temporal_access.NoAnswer(temporal_access.no_worker(pod.node, error)) from error
    return Answer(pod, explanation=explanation, tries=_tries(client, config, described))


def _tries(client: Client, config: NodeConfig, described: DescribeWorkflowExecutionResponse) -> dict[str, Attempts]:
    found = {}
    for one in described.pending_activities:
        temporal_access.decrypt_payloads(one, config, client.namespace)
        found[one.activity_id] = _attempts(one)
    return found


def _attempts(one: PendingActivityInfo) -> Attempts:
    runs = one.state == PendingActivityState.PENDING_ACTIVITY_STATE_STARTED
    return Attempts(
        one.attempt,
        one.last_started_time.ToDatetime(tzinfo=UTC) if runs else None,
        one.next_attempt_schedule_time.ToDatetime(tzinfo=UTC) if one.HasField("next_attempt_schedule_time") else None,
        describe_failure(one.last_failure) if one.HasField("last_failure") else "",
        paused_words(one) if one.paused else "",
        _waits(one) if runs else (),
    )


def _waits(one: PendingActivityInfo) -> tuple[str, ...]:
    """Read what an activity waits for from its last heartbeat; empty for other details."""
    for payload in one.heartbeat_details.payloads:
        with contextlib.suppress(ValueError, RecursionError):
            details = json.loads(payload.data)
            if isinstance(details, dict) and isinstance(waits := details.get("waits"), list):
                return tuple(str(wait)[:LONGEST_WAIT] for wait in waits[:MOST_WAITS])
    return ()


def remarks_of(config: NodeConfig, answer: Answer | None, refused: list[Refusal]) -> Iterator[str]:
    """Report what else keeps the pod from changing: refused manifests, and this node's runtime and poller."""
    view = NodeView(refusals=refused)
    if answer and not answer.gone and answer.pod.node == config.node_name:
        away = lock_holder(lock_path(config.root_dir, "poller")) is None
        view = NodeView(
            refusals=refused,
            runtime=read_node_runtime(config.root_dir),
            pressure=read_node_pressure(config.root_dir),
        )
        yield from notes(view)
        if away:
            yield "no poller runs on this node: changed manifests and exited containers go unnoticed"
        return
    yield from notes(view)


def lines(answer: Answer, now: datetime) -> Iterator[str]:
    """Format the answer, one sentence per line."""
    pod = answer.pod
    yield f"{pod.namespace}/{pod.name} on {pod.node}, UID {pod.uid}"
    if answer.led_by_worker:
        because = answer.explanation.led_because[:LONGEST_REASON] if answer.explanation else ""
        yield LED_BY_WORKER.format(because or "Temporal is away")
    if answer.gone:
        yield f"{answer.gone} (`tempolet history {pod.namespace}/{pod.name}` shows what happened)"
    if answer.paused:
        yield f"{LABELS[SentenceKind.HELD]}: {answer.paused}"
        yield from (f"{LABELS[SentenceKind.UNDER_WAY]}: {key}{one.words(now)}" for key, one in answer.tries.items())
    sentences = answer.explanation.sentences if answer.explanation else ()
    for sentence in sentences:
        yield f"{LABELS[sentence.kind]}: {in_full(sentence, answer.tries, now)}"
    yield from (f"hardware: {one}" for one in answer.hardware)
    shown = {one.about for one in sentences if one.kind is SentenceKind.UNDER_WAY}
    for key, one in answer.tries.items():
        if one.paused and key not in shown and not answer.paused:
            yield f"{LABELS[SentenceKind.HELD]}: the activity {key} is{one.words(now)}"


def in_full(sentence: Sentence, tries: dict[str, Attempts], now: datetime) -> str:
    """Format one sentence with its time, attempts, reason and remedy."""
    text = sentence.text
    if sentence.kind is SentenceKind.UNDER_WAY and (known := tries.get(sentence.about)):
        text += known.words(now)
    if sentence.at is not None:
        left = sentence.at - now
        text += f" at {sentence.at.astimezone():%H:%M:%S}, "
        text += f"in {seconds(left)}" if left.total_seconds() > 0 else "now"
    if sentence.because:
        text += f", because {sentence.because}"
    return text + (f"; {sentence.remedy}" if sentence.remedy else "")


def as_json(selector: PodSelector, answer: Answer | None, remarks: list[str]) -> dict[str, Any]:
    """Return the answer as JSON."""
    known: dict[str, Any] = {"pod": str(selector), "remarks": remarks}
    if answer is None:
        return known
    known |= {"node": answer.pod.node, "uid": answer.pod.uid, "gone": answer.gone}
    if answer.paused:
        known["paused"] = answer.paused
    if answer.led_by_worker:
        known["ledByWorker"] = True
        known["ledBecause"] = answer.explanation.led_because if answer.explanation else ""
    if answer.hardware:
        known["hardware"] = list(answer.hardware)
    if answer.explanation is not None:
        explanation = answer.explanation
        known |= {"lifecycle": explanation.lifecycle, "phase": explanation.phase}
        known["sentences"] = [
            {name: value for name, value in asdict(one).items() if value not in ("", None)}
            | ({"at": one.at.isoformat()} if one.at else {})
            for one in explanation.sentences
        ]
        known["tries"] = {
            about: {"number": one.number, "lastFailure": one.last_failure, "waits": list(one.waits)}
            for about, one in answer.tries.items()
        }
    return known
