"""Does the worker take over when Temporal is away, and hand back when it has returned, once each and one pod before the others?"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proto.temporal import names
from proto.temporal.names import node_workflow_id
from proto.temporal.node import NodeConfigured, NodeStart, NodeStatus
from proto.temporal.operator import Explanation
from proto.temporal.pod import PodStart
from proto.temporal.signals import PodListed, RuntimeChanged
from tests.worker.stand_in.leading_world import AWAY_SECONDS, Node, named_world, said, workflow_id
from worker.delivery.lead import Answer, LeadUnavailable, Message, Reply
from worker.stand_in import leading, led_pods
from worker.stand_in.answers import SWITCHED_WITHIN
from worker.stand_in.away import Limits
from worker.stand_in.connection import NOT_CONNECTED
from worker.stand_in.hand_back.returned import HandedOver
from worker.stand_in.hand_back.returns import FAILED_TASKS, WORKED
from worker.stand_in.journal.kept import Kept, Place
from worker.stand_in.leading import FIRST_PAUSE, LONGEST_PAUSE, STEP
from worker.stand_in.led_pods import TRIED_AGAIN
from workflows.decide.versions import CURRENT, CURRENT_NODE

pytestmark = pytest.mark.jumping_clock
LATER = AWAY_SECONDS + 2 * STEP
HINT = RuntimeChanged("event")
OWN = node_workflow_id("node-1")


@pytest.fixture
async def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Node]:
    """Watch three pods that Temporal leads."""
    monkeypatch.setattr(asyncio, "to_thread", soon)
    made = Node(tmp_path, "a", "b", "c")
    for module in (leading, led_pods):
        monkeypatch.setattr(module, "monotonic", made.monotonic)
    made.leading = leading.Leading(made.leading.parts, worker_id="w", limits=Limits(away=AWAY_SECONDS))
    made.answers._leading = made.leading
    watch = asyncio.create_task(made.leading.watch(()))
    await asyncio.sleep(STEP)
    yield made
    watch.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watch


async def soon(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function after what else is ready: a thread takes no time on a clock that jumps."""
    await asyncio.sleep(0)
    return function(*arguments)


async def away(node: Node) -> None:
    """Let the worker lose the connection, and take over."""
    node.is_hosted = False
    await asyncio.sleep(LATER)
    assert node.led() == {"a", "b", "c"}


async def back(node: Node, seconds: float = 2 * LONGEST_PAUSE) -> None:
    """Let Temporal answer, and wait."""
    node.is_hosted = node.temporal.is_up = True
    await asyncio.sleep(seconds)


async def test_nothing_is_led_while_temporal_works(node: Node) -> None:
    """However long."""
    await asyncio.sleep(1000)
    assert node.led() == set()
    engine = node.leading.engine()
    assert engine
    assert (engine.away_since, engine.pods_led) == (None, 0)


async def test_pods_are_taken_over_on_a_verdict(node: Node) -> None:
    """Not before the time that is set; each lead has a higher epoch, and it is told."""
    node.is_hosted = False
    await asyncio.sleep(AWAY_SECONDS - 2 * STEP)
    assert node.led() == set()
    await asyncio.sleep(4 * STEP)
    assert node.led() == {"a", "b", "c"}
    led = node.leading.led[workflow_id("a")]
    assert led.epoch == led.stand_in.state().ticket.epoch == node.epoch("a") > 0
    engine = node.leading.engine()
    assert engine
    assert engine.away_since
    assert engine.pods_led == 3
    assert "the connection" in engine.why


async def test_a_pod_of_another_release_keeps_its_ticket(node: Node) -> None:
    """Nobody could lead it here, and its workflow would be refused afterwards."""
    later = node.states.newest_of[workflow_id("b")]
    node.states.newest_of[workflow_id("b")] = replace(later, behaviour=CURRENT + 1)
    before = node.epoch("b")
    node.is_hosted = False
    await asyncio.sleep(LATER)
    assert node.led() == {"a", "c"}
    assert node.epoch("b") == before


async def test_a_take_over_reads_the_state_once(node: Node) -> None:
    """Its number is known without it: the state of a pod may have a megabyte."""
    node.is_hosted = False
    await asyncio.sleep(LATER)
    assert node.led() == {"a", "b", "c"}
    assert node.states.reads == {workflow_id(name): 1 for name in "abc"}


async def test_no_pod_is_led_twice(node: Node) -> None:
    """Whoever finds first that Temporal is away."""
    await asyncio.sleep(LATER)
    asked = said("a", names.RUNTIME_CHANGED, HINT, due_for=AWAY_SECONDS + 1)
    answers = await asyncio.gather(*(node.answers.deliver(asked) for _ in range(5)))
    assert set(answers) == {Answer.TAKEN}
    await asyncio.sleep(LATER)
    assert sorted(node.leads_begun) == [workflow_id(name) for name in "abc"]


async def test_a_query_that_nobody_answered_takes_nothing_over(node: Node) -> None:
    """It leaves no event, so that it could not be seen that Temporal has answered its next try."""
    await asyncio.sleep(LATER)
    asked = Message(workflow_id("a"), names.EXPLAIN, due_for=2 * AWAY_SECONDS)
    assert await node.answers.query(asked, Explanation) == Reply(Answer.TEMPORAL_LEADS)
    await asyncio.sleep(LATER)
    assert node.led() == set()


async def test_a_worker_that_stops_takes_nothing_over(node: Node) -> None:
    """It waits for its activities longer than Temporal may be away; what it leads it leads until it ends."""
    node.is_hosted, node.is_stopping = False, True
    await asyncio.sleep(LATER)
    assert node.led() == set()
    node.is_stopping = False
    await asyncio.sleep(LATER)
    assert node.led() == {"a", "b", "c"}
    node.is_stopping = True
    await asyncio.sleep(LATER)
    assert node.led() == {"a", "b", "c"}


async def test_a_worker_that_was_suspended_does_not_take_over(node: Node) -> None:
    """What was due meanwhile was not late because of Temporal."""
    node.is_hosted = False
    await asyncio.sleep(2 * STEP)
    node.jumped = 300.0
    await asyncio.sleep(2 * STEP)
    node.is_hosted = True
    await asyncio.sleep(LATER)
    assert node.leads_begun == []


async def test_a_disk_that_takes_no_ticket_leaves_the_pods_alone(node: Node) -> None:
    """They are led once it does; a pod that begins is not known either."""
    node.tickets.is_full, node.is_hosted = True, False
    await asyncio.sleep(LATER)
    assert node.led() == set()
    new = named_world("new").start()
    assert await node.answers.start(new, said("new", names.POD_LISTED, PodListed("file"))) is Answer.UNKNOWN_POD
    node.tickets.is_full = False
    await asyncio.sleep(TRIED_AGAIN + 2 * STEP)
    assert node.led() == {"a", "b", "c"}


async def test_nobody_starts_a_pod_before_it_is_settled_what_temporal_has(node: Node) -> None:
    """Who asks for the leads is told of the change."""
    before = await node.answers.leads("")
    assert not before.is_settled
    assert await node.answers.lead(workflow_id("a")) is Answer.NOT_SETTLED
    waiting = asyncio.create_task(node.answers.leads(before.version))
    node.leading.settle(is_settled=True)
    assert (await waiting).is_settled
    assert await node.answers.lead(workflow_id("a")) is Answer.TEMPORAL_LEADS
    assert await node.answers.lead(workflow_id("new")) is Answer.UNKNOWN_POD
    node.leading.settle(is_settled=False)
    await away(node)
    assert await node.answers.lead(workflow_id("a")) is Answer.TAKEN


async def test_a_pod_begins_without_temporal(node: Node) -> None:
    """Only while Temporal is away for all."""
    new, listed = named_world("new").start(), said("new", names.POD_LISTED, PodListed("file"))
    assert await node.answers.start(new, listed) is Answer.UNKNOWN_POD
    await away(node)
    answers = await asyncio.gather(*(node.answers.start(new, listed) for _ in range(2)))
    assert answers == [Answer.TAKEN, Answer.TAKEN]
    assert node.leads_begun.count(workflow_id("new")) == 1


async def test_one_pod_is_handed_back_before_the_others(node: Node) -> None:
    """If Temporal does not take it, the others are not touched, and are led on."""
    await away(node)
    node.temporal.answers = {workflow_id(name): HandedOver.AWAY for name in "abc"}
    await back(node, FIRST_PAUSE)
    assert list(node.temporal.tried()) == ["a"]
    assert node.led() == {"a", "b", "c"}
    assert node.leading.away
    node.temporal.answers = {}
    await asyncio.sleep(2 * LONGEST_PAUSE)
    assert node.led() == set()
    assert node.leading.away is None
    assert sorted(node.states.ended) == [workflow_id(name) for name in "abc"]


async def test_one_pod_whose_calls_fail_keeps_no_other(node: Node) -> None:
    """Whoever keeps one workflow from answering does not keep the node from handing back the others: each is the first in turn."""
    await away(node)
    node.temporal.answers = {workflow_id("a"): HandedOver.AWAY}
    await back(node, 4 * LONGEST_PAUSE)
    assert node.led() == {"a"}
    assert node.leading.away is None


async def test_the_next_run_has_a_higher_epoch(node: Node) -> None:
    """So what the stand-in has begun does nothing more."""
    await away(node)
    before = node.epoch("b")
    await back(node)
    (returned,) = [one for one in node.temporal.returned if one.workflow_id == workflow_id("b")]
    assert before < returned.start.ticket.epoch == node.epoch("b")
    assert node.leading.leads().pods[workflow_id("b")].epoch == node.epoch("b")


async def test_a_pod_that_is_refused_is_led_on(node: Node) -> None:
    """With a higher epoch than what Temporal was offered; the others return, and it is tried again."""
    await away(node)
    node.temporal.answers = {workflow_id("a"): HandedOver.REFUSED}
    await back(node, TRIED_AGAIN + 2 * LONGEST_PAUSE)
    assert node.led() == {"a"}
    tried = [one.start.ticket.epoch for one in node.temporal.returned if one.workflow_id == workflow_id("a")]
    assert len(tried) > 1
    assert node.leading.led[workflow_id("a")].epoch == node.epoch("a") > tried[-1]
    engine = node.leading.engine()
    assert engine
    assert (engine.away_since, engine.pods_led) == (None, 1)
    await asyncio.sleep(STEP / 2)  # between two tries
    assert await node.answers.deliver(said("a", names.RUNTIME_CHANGED, HINT)) is Answer.TAKEN


@pytest.mark.parametrize(
    ("result", "answer"),
    [(HandedOver.TAKEN, Answer.TEMPORAL_LEADS), (HandedOver.REFUSED, Answer.TAKEN)],
    ids=["temporal-takes-the-pod", "it-is-led-on"],
)
async def test_a_message_waits_for_a_switch(node: Node, result: HandedOver, answer: Answer) -> None:
    """And goes to whoever leads afterwards."""
    await away(node)
    node.temporal.answers = {workflow_id("a"): result}
    node.temporal.open.clear()
    node.is_hosted = node.temporal.is_up = True
    while not node.temporal.returned:  # noqa: ASYNC110 - the clock jumps
        await asyncio.sleep(STEP)
    telling = asyncio.create_task(node.answers.deliver(said("a", names.RUNTIME_CHANGED, HINT)))
    await asyncio.sleep(SWITCHED_WITHIN / 2)
    assert not telling.done()
    node.temporal.open.set()
    assert await telling is answer


async def test_a_switch_that_hangs_is_told_to_the_sender(node: Node) -> None:
    """It tries again."""
    await away(node)
    node.temporal.open.clear()
    node.is_hosted = node.temporal.is_up = True
    while not node.temporal.returned:  # noqa: ASYNC110 - the clock jumps
        await asyncio.sleep(STEP)
    with pytest.raises(LeadUnavailable, match="handed back"):
        await node.answers.deliver(said("a", names.RUNTIME_CHANGED, HINT))
    node.temporal.open.set()


async def test_a_node_without_pods_tells_that_it_is_not_connected(node: Node) -> None:
    """Nothing of it is due, so it finds nothing away."""
    node.states.newest_of.clear()
    node.is_hosted = False
    await asyncio.sleep(LATER)
    engine = node.leading.engine()
    assert node.leading.away is None
    assert engine
    assert engine.away_since
    assert engine.why == NOT_CONNECTED


async def test_the_node_s_images_are_led_too(node: Node) -> None:
    """They are handed back after the pods, and are no pod in what is told."""
    node.states.newest_of[OWN] = NodeStart("node-1", CURRENT_NODE)
    node.is_hosted = False
    await asyncio.sleep(LATER)
    assert node.led() == {"a", "b", "c", "node-1"}
    engine = node.leading.engine()
    assert engine
    assert engine.pods_led == 3
    await back(node)
    assert node.led() == set()
    tried = list(node.temporal.tried())
    assert (tried[0], tried[-1]) == ("a", "node-1")
    start = node.temporal.returned[-1].start
    assert isinstance(start, NodeStart)
    assert start.ticket == node.tickets.draw(OWN)
    assert start.ticket.epoch == 2, "each switch raises it"


async def test_a_node_without_pods_leads_its_images(node: Node) -> None:
    """Whoever asks gets the state of the images, and nothing that only a pod has."""
    node.states.newest_of.clear()
    node.states.newest_of[OWN] = NodeStart("node-1", CURRENT_NODE)
    node.is_hosted = False
    await asyncio.sleep(LATER)
    assert node.led() == {"node-1"}
    assert await node.answers.query(Message(OWN, names.NODE_STATUS), NodeStatus) == Reply(
        Answer.TAKEN, NodeStatus(None, 0, "", (), ())
    )
    with pytest.raises(LeadUnavailable):
        await node.answers.query(Message(OWN, names.EXPLAIN), object)
    reply = await node.answers.update(Message(OWN, names.EVICT_POD, None), object)
    assert reply.refusal


async def test_a_node_s_workflow_begins_without_temporal(node: Node) -> None:
    """As a pod does."""
    configured = Message(OWN, names.NODE_CONFIGURED, NodeConfigured())
    assert await node.answers.start(NodeStart("node-1", CURRENT_NODE), configured) is Answer.UNKNOWN_POD
    await away(node)
    assert await node.answers.start(NodeStart("node-1", CURRENT_NODE), configured) is Answer.TAKEN
    assert node.led() == {"a", "b", "c", "node-1"}


async def test_a_pod_whose_state_is_damaged_keeps_no_other_from_being_led(node: Node) -> None:
    """It is tried again, but not at each look."""
    good = node.states.newest_of[workflow_id("b")]
    assert isinstance(good, PodStart)
    node.states.newest_of[workflow_id("b")] = replace(good, pod={"metadata": {}})
    node.is_hosted = False
    await asyncio.sleep(LATER)
    assert node.led() == {"a", "c"}
    epoch = node.epoch("b")
    await asyncio.sleep(10 * STEP)
    assert node.epoch("b") == epoch
    node.states.newest_of[workflow_id("b")] = good
    await asyncio.sleep(TRIED_AGAIN)
    assert node.led() == {"a", "b", "c"}


async def test_a_pod_whose_workflow_tasks_fail_is_led_alone(node: Node) -> None:
    """It is handed back after a while: its next run may fail, too."""
    node.temporal.is_up = True
    node.dues.failed(workflow_id("a"), FAILED_TASKS)
    await asyncio.sleep(2 * STEP)
    assert node.led() == {"a"}
    assert node.leading.led[workflow_id("a")].why == "its last 3 workflow tasks failed"
    await asyncio.sleep(TRIED_AGAIN / 2)
    assert node.led() == {"a"}
    await asyncio.sleep(TRIED_AGAIN)
    assert node.led() == set()
    assert list(node.temporal.tried()) == ["a"]


async def fails_always(node: Node, workflow: str) -> list[float]:
    """Let the tasks of a workflow fail whenever Temporal leads it; returns when it was handed back, for three hours."""
    times = list[float]()
    end = node.monotonic() + 3 * 3600
    while node.monotonic() < end:
        if workflow not in node.leading.led:
            if node.temporal.returned:
                times.append(node.monotonic())
            node.dues.failed(workflow, FAILED_TASKS)
        await asyncio.sleep(STEP)
    return times


async def test_a_pod_whose_workflow_fails_again_and_again_settles_with_the_node(node: Node) -> None:
    """It is handed back ever more seldom, and that is told; other pods are not touched."""
    node.temporal.is_up = True
    times = await fails_always(node, workflow_id("a"))
    pauses = [after - before for before, after in itertools.pairwise(times)]
    assert all(
        0 <= pause - due <= 2 * LONGEST_PAUSE for pause, due in zip(pauses, [120, 240, 480, 960, 1920], strict=False)
    )
    assert len(times) == len(node.states.ended) == 7, "within three hours, not once in a minute and a half"
    assert node.led() == {"a"}
    engine = node.leading.engine()
    assert engine
    assert (engine.away_since, engine.pods_led, engine.pods_kept) == (None, 1, 1)
    assert "its workflow tasks fail whenever it is handed back (8 times in a row)" in engine.why
    explained = await node.answers.query(Message(workflow_id("a"), names.EXPLAIN), Explanation)
    assert explained.value.led_because == node.leading.because(workflow_id("a"))
    assert "handed back next at" in explained.value.led_because


async def test_a_run_that_fails_at_once_is_no_hand_back(node: Node) -> None:
    """The node goes on, with a higher epoch than the run, and stays longer the next time."""
    node.temporal.is_up = True
    node.temporal.answers = {workflow_id("a"): HandedOver.FAILED}
    await away(node)
    await back(node)
    assert node.led() == {"a"}
    assert [one.workflow_id for one in node.temporal.returned].count(workflow_id("a")) == 1
    await asyncio.sleep(TRIED_AGAIN + 2 * LONGEST_PAUSE)
    tried = [one for one in node.temporal.returned if one.workflow_id == workflow_id("a")]
    assert len(tried) == 2
    assert node.epoch("a") > tried[-1].start.ticket.epoch
    assert node.leading.kept() == [workflow_id("a")]
    await asyncio.sleep(TRIED_AGAIN + 2 * LONGEST_PAUSE)
    assert len([one for one in node.temporal.returned if one.workflow_id == workflow_id("a")]) == 2


async def test_a_pod_whose_workflow_works_again_is_led_by_temporal(node: Node) -> None:
    """What failed before the hand-back counts no more."""
    node.temporal.is_up = True
    node.dues.failed(workflow_id("a"), FAILED_TASKS)
    await asyncio.sleep(2 * STEP)
    node.dues.failed(
        workflow_id("a"), FAILED_TASKS + 2
    )  # Temporal is asked about the run that failed, as long as there is no other
    await asyncio.sleep(3 * TRIED_AGAIN)
    assert node.led() == set()
    assert list(node.temporal.tried()) == ["a"]


async def test_a_pod_whose_workflow_has_worked_meanwhile_begins_anew(node: Node) -> None:
    """Another defect, hours later, is not the same."""
    node.temporal.is_up = True
    for _ in range(2):
        node.dues.failed(workflow_id("a"), FAILED_TASKS)
        await asyncio.sleep(TRIED_AGAIN + 2 * LONGEST_PAUSE)
        assert node.led() == set()
        assert node.leading.stays[workflow_id("a")].failures == 1
        await asyncio.sleep(WORKED)
    assert list(node.temporal.tried()) == ["a", "a"]


async def test_another_worker_tries_at_once(node: Node) -> None:
    """It may be of another release."""
    node.temporal.is_up = True
    await fails_always(node, workflow_id("a"))
    tries = len(node.temporal.returned)
    state = node.leading.led[workflow_id("a")].stand_in.state()
    another = leading.Leading(node.leading.parts, worker_id="w2", limits=Limits(away=AWAY_SECONDS))
    await node.leading.interrupt()
    watch = asyncio.create_task(another.watch([Kept(workflow_id("a"), state)]))
    await asyncio.sleep(2 * LONGEST_PAUSE)
    assert len(node.temporal.returned) == tries + 1
    assert not another.led
    watch.cancel()
    await asyncio.gather(watch, return_exceptions=True)


@pytest.mark.parametrize("raised", [True, False])
async def test_a_worker_that_died_as_it_took_a_pod_over(node: Node, raised: bool) -> None:
    """It had raised the epoch, so that Temporal's run waits: the next worker leads the pod; otherwise the run goes on."""
    await node.leading.interrupt()
    name, tickets = workflow_id("a"), node.leading.parts.tickets
    state = replace(named_world("a").start(), ticket=tickets.draw(name))
    if raised:
        tickets.raise_epoch(name)
    another = leading.Leading(node.leading.parts, worker_id="w2", limits=Limits(away=AWAY_SECONDS))
    watch = asyncio.create_task(another.watch([Kept(name, state, Place("namespace", "run", 7))]))
    await asyncio.sleep(STEP / 2)
    assert (name in another.led) is raised
    watch.cancel()
    await asyncio.gather(watch, return_exceptions=True)


async def test_nothing_is_led_while_another_machine_has_the_name(node: Node) -> None:
    """It is told with since when; what was led goes on once that machine is gone."""
    await away(node)
    tasks = [led.task for led in node.leading.led.values()]
    node.name.taken_by = "another machine has taken over"
    await asyncio.sleep(LATER)
    assert node.led() == set()
    assert all(task.done() for task in tasks)
    assert await node.answers.deliver(said("a", names.RUNTIME_CHANGED, HINT, LATER)) is Answer.TEMPORAL_LEADS
    new = named_world("new").start()
    assert await node.answers.start(new, said("new", names.POD_LISTED, PodListed("file"))) is Answer.UNKNOWN_POD
    engine = node.leading.engine()
    assert engine
    assert node.leading.leads().name_taken
    assert (engine.name_taken, engine.why, engine.pods_led) == (True, node.name.taken_by, 0)
    assert engine.away_since
    node.name.taken_by = ""
    await asyncio.sleep(LATER)
    assert node.led() == {"a", "b", "c"}


async def test_senders_learn_that_the_name_is_not_sure(node: Node) -> None:
    """At once: what they have for Temporal waits."""
    before = node.leading.version
    node.name.unsure = True
    await asyncio.sleep(2 * STEP)
    assert node.leading.version != before
    assert node.leading.leads().name_unsure
    await away(node)
    assert node.leading.leads().name_unsure, "pods are led all the same"


async def test_leads_that_were_interrupted_go_on(node: Node) -> None:
    """A defect that ends the watch ends no lead for long: the next watch begins with them."""
    await away(node)
    tasks = [led.task for led in node.leading.led.values()]
    await node.leading.interrupt()
    await node.leading.lead_interrupted()
    assert all(task.done() for task in tasks)
    assert node.led() == {"a", "b", "c"}
    await back(node, 100)
    assert node.led() == set()


async def test_a_pod_whose_run_does_not_replay_is_led_and_replaced(node: Node) -> None:
    """It alone, with the reason, also for `explain`; the next hand-back of the same pod is an ordinary one."""
    node.temporal.is_up = False
    assert await node.leading.lead_instead(workflow_id("b"), "its history does not replay")
    assert node.led() == {"b"}
    await asyncio.sleep(STEP)
    engine = node.leading.engine()
    assert engine
    assert (engine.away_since, engine.why, engine.pods_led) == (None, "its history does not replay", 1)
    explained = await node.answers.query(said("b", names.EXPLAIN, None), Explanation)
    assert explained.value.led_because == "its history does not replay"
    await back(node)
    await away(node)
    await back(node)
    assert [one.replays for one in node.temporal.returned if one.workflow_id == workflow_id("b")] == [False, True]
    assert {one.replays for one in node.temporal.returned if one.workflow_id != workflow_id("b")} == {True}


async def test_a_pod_of_which_no_state_is_known_is_not_led(node: Node) -> None:
    """Whoever asks for it has to tell."""
    assert not await node.leading.lead_instead(workflow_id("unknown"), "its history does not replay")
    assert node.led() == set()


async def test_temporal_is_not_away_while_histories_are_replayed(node: Node) -> None:
    """It answers, and the SDK's worker is about to run; what is due for long is judged as always."""
    node.is_hosted, node.is_replaying = False, True
    await asyncio.sleep(10 * LATER)
    assert node.led() == set()
    node.is_replaying = False
    await asyncio.sleep(LATER)
    assert node.led() == {"a", "b", "c"}
