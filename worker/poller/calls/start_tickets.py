"""Draws the ticket with which the poller starts a pod in Temporal, if Temporal is to lead the pod.

The worker is asked after the ticket is drawn. If it takes the lead later, the ticket has a lower epoch than the pod's, and the run that is started
with it does nothing.
"""

import asyncio
from typing import Final

from proto.temporal.ticket import Ticket
from worker.delivery.deliveries import Deliveries
from worker.delivery.lead import Answer, LeadUnavailable
from worker.poller.calls.temporal_calls import TemporalUnavailable
from worker.tickets.tickets import Tickets

SETTLED_WITHIN: Final = 4.0
"""Seconds that a start waits for a worker that compares what Temporal has: less than until a message counts as not taken."""


async def ticket_to_start(tickets: Tickets, deliveries: Deliveries, workflow_id: str) -> Ticket:
    """Return a pod's ticket; raises TemporalUnavailable if the worker leads the pod, or does not know yet whether it has to."""
    for within in (SETTLED_WITHIN, 0.0):
        ticket = await asyncio.to_thread(tickets.draw, workflow_id)
        try:
            answer = await deliveries.lead.lead(workflow_id)
        except LeadUnavailable:
            return ticket  # without a worker nobody takes the lead
        if answer is Answer.TAKEN:
            raise TemporalUnavailable("the worker leads the pod")
        if answer is not Answer.NOT_SETTLED:
            return ticket
        await deliveries.settled(within)
    raise TemporalUnavailable("the worker does not know yet what Temporal has")
