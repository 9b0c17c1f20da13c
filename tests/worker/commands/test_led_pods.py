"""Do commands reach a pod that the worker leads, and Temporal otherwise?"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from proto.temporal import names
from proto.temporal.node import NodeStatus
from proto.temporal.operator import ConditionSet, Explanation, Rejection, Sentence, SentenceKind, SetCondition
from tests.patience import PATIENCE
from tests.worker.delivery.fake_lead import FakeLead
from tests.worker.poller.snapshots import snapshot, write
from worker.commands.access import node_status
from worker.commands.access.exits import CommandFailed
from worker.commands.access.led_pods import pod_here
from worker.commands.access.pod_selection import PodSelector
from worker.commands.access.temporal_access import NoAnswer
from worker.commands.change import updates
from worker.commands.change.updates import Refused
from worker.commands.show import explain
from worker.daemon.config import NodeConfig
from worker.delivery.server import LeadServer, socket_path
from worker.payloads.receiving import ReceivingConverter

WEB = PodSelector("default", "web")
ASKED = SetCondition("root@n", "gate", "True")
DONE = ConditionSet("root@n", "gate", "True")
ID = snapshot("u1").workflow_id


@dataclass
class LedNode:
    """A node with one pod, a lead, and a Temporal that answers or not."""

    config: NodeConfig
    lead: FakeLead = field(default_factory=FakeLead)
    answer: Any = DONE
    """Temporal's; an exception is raised, None never comes."""
    asked: list[Any] = field(default_factory=list)
    """What Temporal was asked."""

    async def temporal(self, _: NodeConfig, selector: PodSelector, asked: Any = None, **__: Any) -> Any:
        """Answer a command."""
        assert selector == WEB
        self.asked.append(asked)
        if self.answer is None:
            await asyncio.Event().wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def set_condition(self) -> ConditionSet:
        """Run the command."""
        async with asyncio.timeout(PATIENCE):
            numbered = updates.numbered(ASKED)
            send = updates._send_to_pod(self.config, WEB, numbered, update=names.SET_CONDITION, answer=ConditionSet)
            return await send


@pytest.fixture
async def led(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LedNode]:
    """Make a node and serve its lead."""
    monkeypatch.setattr("worker.delivery.deliveries.PATIENCE", timedelta())
    write(tmp_path, snapshot("u1"))
    led = LedNode(NodeConfig("n", root_dir=tmp_path))
    monkeypatch.setattr(updates, "_send_to_workflow", led.temporal)
    monkeypatch.setattr(explain, "_ask_workflow", led.temporal)
    server = LeadServer(led.lead, ReceivingConverter(), {names.SET_CONDITION: SetCondition})
    async with server.serving(socket_path(led.config.state_dir)):
        yield led


async def test_a_pod_that_the_worker_leads_is_asked_there_at_once(led: LedNode) -> None:
    """The request has a number; Temporal is not asked."""
    led.lead.take(ID)
    led.lead.answers[names.SET_CONDITION] = DONE
    assert await led.set_condition() == DONE
    ((workflow_id, name, asked),) = led.lead.told
    assert (workflow_id, name) == (ID, names.SET_CONDITION)
    assert asked == replace(ASKED, source="command", sequence=asked.sequence)
    assert asked.sequence > 0
    assert led.asked == []


async def test_the_worker_s_refusal_is_the_pod_s(led: LedNode) -> None:
    """With its words."""
    led.lead.take(ID)
    led.lead.answers[names.SET_CONDITION] = Rejection("Unchanged", "it is True already")
    with pytest.raises(Refused, match="it is True already") as raised:
        await led.set_condition()
    assert raised.value.reason == "Unchanged"


async def test_temporal_is_asked_if_it_leads(led: LedNode) -> None:
    """Its answer counts, and its refusal."""
    assert await led.set_condition() == DONE
    led.answer = Refused("no", "NotYours")
    with pytest.raises(Refused, match="no"):
        await led.set_condition()
    assert len(led.asked) == 2
    assert led.lead.told == []


@pytest.mark.parametrize("answer", [pytest.param(None, id="never"), pytest.param(NoAnswer("away"), id="away")])
async def test_a_worker_that_takes_the_lead_meanwhile_gets_the_request(led: LedNode, answer: Any) -> None:
    """The same one, by its number, that Temporal was sent."""
    led.answer = answer
    led.lead.takes_new = True
    led.lead.answers[names.SET_CONDITION] = DONE
    assert await led.set_condition() == DONE
    assert [asked for _, _, asked in led.lead.told] == led.asked


async def test_an_away_temporal_is_told_if_nobody_leads(led: LedNode) -> None:
    """As before."""
    led.answer = NoAnswer("Temporal does not answer")
    with pytest.raises(NoAnswer, match="Temporal does not answer"):
        await led.set_condition()
    assert led.lead.refused


async def test_without_a_worker_temporal_is_asked(tmp_path: Path, led: LedNode) -> None:
    """And a worker that leads and answers something else is a failure."""
    led.lead.take(ID)
    led.lead.answers[names.SET_CONDITION] = Explanation("sync", "Running")
    with pytest.raises(CommandFailed):
        await led.set_condition()
    write(tmp_path / "other", snapshot("u1"))
    led.config = NodeConfig("n", root_dir=tmp_path / "other")
    assert await led.set_condition() == DONE


async def test_a_pod_of_another_node_is_temporal_s(tmp_path: Path, led: LedNode) -> None:
    """This node's worker knows nothing of it."""
    led.config = NodeConfig("n", root_dir=tmp_path / "empty")
    assert await led.set_condition() == DONE


async def test_a_pod_that_the_worker_leads_is_explained(led: LedNode) -> None:
    """And who leads it."""
    led.lead.take(ID)
    stands, why = (Sentence(SentenceKind.STANDS, "Running"),), "its history does not replay"
    led.lead.answers[names.EXPLAIN] = Explanation("sync", "Running", stands, why)
    answer = await explain._ask(led.config, WEB)
    lines = list(explain.lines(answer, datetime.now(UTC)))
    assert lines == ["default/web on n, UID u1", explain.LED_BY_WORKER.format(why), "state: Running"]
    as_json = explain.as_json(WEB, answer, [])
    assert (as_json["ledByWorker"], as_json["ledBecause"]) == (True, why)
    led.lead.answers[names.EXPLAIN] = None
    with pytest.raises(CommandFailed):
        await explain._ask(led.config, WEB)
    led.lead.let_go(ID)
    led.answer = explain.Answer(answer.pod)
    assert await explain._ask(led.config, WEB) == led.answer


async def test_the_images_are_asked_of_whoever_leads_them(led: LedNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node's own workflow, or the worker; an answer of another type is a failure."""
    by_worker, by_temporal = (NodeStatus(None, count, "", (), ()) for count in (1, 2))

    async def ask_workflow(_: NodeConfig) -> NodeStatus:
        return by_temporal

    monkeypatch.setattr(node_status, "_ask_workflow", ask_workflow)
    assert await node_status.ask_node_status(led.config) == by_temporal
    led.lead.take(names.node_workflow_id("n"))
    led.lead.answers[names.NODE_STATUS] = by_worker
    assert await node_status.ask_node_status(led.config) == by_worker
    led.lead.answers[names.NODE_STATUS] = None
    with pytest.raises(CommandFailed):
        await node_status.ask_node_status(led.config)


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        pytest.param(WEB, "u2", id="the-newest"),
        pytest.param(replace(WEB, uid="u1"), "u1", id="by-its-uid"),
        pytest.param(replace(WEB, uid="u3"), "", id="no-such-uid"),
        pytest.param(replace(WEB, node="n"), "u2", id="of-this-node"),
        pytest.param(replace(WEB, node="other"), "", id="of-another-node"),
        pytest.param(PodSelector("default", "db"), "", id="no-such-pod"),
    ],
)
def test_which_pod_is_meant(tmp_path: Path, selector: PodSelector, found: str) -> None:
    """By the snapshots, because Temporal may be away."""
    write(tmp_path, replace(snapshot("u1"), started_at="2026-01-01T00:00:00Z"))
    write(tmp_path, replace(snapshot("u2"), started_at="2026-01-02T00:00:00Z"))
    assert pod_here(NodeConfig("n", root_dir=tmp_path), selector).rpartition("/")[2] == found
