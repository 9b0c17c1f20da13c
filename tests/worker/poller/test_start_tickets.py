"""Does the poller start a pod past the worker only if the worker will not lead it, or its run has an outdated ticket?"""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from proto.temporal.ticket import Ticket
from tests.patience import PATIENCE
from tests.worker.delivery.fake_lead import FakeLead
from worker.delivery import deliveries
from worker.delivery.deliveries import Deliveries
from worker.delivery.lead import Answer, LeadUnavailable
from worker.poller.calls import start_tickets
from worker.poller.calls.start_tickets import ticket_to_start
from worker.poller.calls.temporal_calls import TemporalUnavailable
from worker.tickets.tickets import Tickets

POD = "pod/n/default/web/u1"


class Poller:
    """The tickets and the deliveries of a poller, and its worker."""

    def __init__(self, folder: Path) -> None:
        self.lead, self.tickets = FakeLead(), Tickets(folder)
        self.deliveries = Deliveries(self.lead, lambda _: False)

    async def ticket(self) -> Ticket:
        """Draw one."""
        return await ticket_to_start(self.tickets, self.deliveries, POD)


@pytest.fixture
async def poller(tmp_path: Path) -> AsyncIterator[Poller]:
    """Follow the leads of a worker that is settled."""
    made = Poller(tmp_path)
    following = asyncio.create_task(made.deliveries.follow())
    async with asyncio.timeout(PATIENCE):
        assert await made.deliveries.settled(PATIENCE)
        yield made
    following.cancel()


async def test_a_pod_that_temporal_leads_is_started(poller: Poller) -> None:
    """With the ticket that the node holds."""
    assert await poller.ticket() == poller.tickets.of(POD)


async def test_a_pod_that_the_worker_leads_is_not(poller: Poller) -> None:
    """It is told to the worker."""
    poller.lead.take(POD)
    with pytest.raises(TemporalUnavailable):
        await poller.ticket()


async def test_a_lead_that_begins_after_the_question_outdates_the_ticket(poller: Poller) -> None:
    """The start may then go on: its run does nothing."""
    asked = poller.lead.lead

    async def then_led(workflow_id: str) -> Answer:
        answer = await asked(workflow_id)
        poller.tickets.raise_epoch(workflow_id)
        return answer

    poller.lead.lead = then_led  # type: ignore[method-assign]  # the worker takes the lead at this very moment
    drawn, held = await poller.ticket(), poller.tickets.of(POD)
    assert held
    assert held.epoch > drawn.epoch


async def test_a_start_waits_until_it_is_settled(poller: Poller) -> None:
    """And then draws again, because the lead may have changed."""
    poller.lead.is_settled = False
    poller.lead._turn((), by_worker=False)
    while poller.deliveries.is_settled:  # noqa: ASYNC110 - nothing tells of it
        await asyncio.sleep(0)
    ask, asked = poller.lead.lead, asyncio.Event()

    async def noting(workflow_id: str) -> Answer:
        answer = await ask(workflow_id)
        asked.set()
        return answer

    poller.lead.lead = noting  # type: ignore[method-assign]  # as the worker answers
    starting = asyncio.create_task(poller.ticket())
    await asked.wait()
    raised = poller.tickets.raise_epoch(POD)
    poller.lead.settle()
    assert await starting == raised


async def test_a_start_does_not_wait_for_long(poller: Poller, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is needed again."""
    monkeypatch.setattr(start_tickets, "SETTLED_WITHIN", 0.0)
    poller.lead.is_settled = False
    with pytest.raises(TemporalUnavailable):
        await poller.ticket()


async def test_without_a_worker_temporal_is_told(poller: Poller) -> None:
    """Nobody takes a lead."""

    async def silent(_: str) -> Answer:
        raise LeadUnavailable("no socket")

    poller.lead.lead = silent  # type: ignore[assignment]  # as without a worker
    assert await poller.ticket() == poller.tickets.of(POD)


async def test_without_a_worker_nothing_is_settled(poller: Poller, monkeypatch: pytest.MonkeyPatch) -> None:
    """So nothing counts as orphaned, until it answers again, even if nothing has changed."""

    async def silent(_: str) -> None:
        raise LeadUnavailable("no socket")

    monkeypatch.setattr(deliveries, "ASK_AGAIN", timedelta())
    answers = poller.lead.leads
    poller.lead.leads = silent  # type: ignore[method-assign, assignment]  # as above
    poller.lead._turn((), by_worker=False)
    while poller.deliveries.is_settled:  # noqa: ASYNC110 - nothing tells of it
        await asyncio.sleep(0)
    poller.lead.leads = answers  # type: ignore[method-assign]  # as before
    assert await poller.deliveries.settled(PATIENCE)
