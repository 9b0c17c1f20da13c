"""How a run takes back what the node led while Temporal was away: a pod, or the node's images."""

from dataclasses import replace
from datetime import timedelta
from typing import Final

from proto.temporal.away import HandedBack, NodeHandedBack, WhileAway
from proto.temporal.node import NodeStart
from proto.temporal.pod import PodStart
from proto.temporal.pod_inputs import HandBack
from proto.temporal.ticket import Ticket
from workflows.decide.refusal import Refusal

LONGEST: Final = timedelta(minutes=10)
"""How long a run waits for the end of a hand-back. The node gives up on it after 30 s, so this is for a node that is gone."""
REFUSAL: Final = Refusal(
    "HandBackUnderWay", "Temporal was away, and the node is handing the pod back to it; ask again in a few seconds"
)
"""Why an Update is rejected meanwhile: what it changed would be lost with the run."""


def is_for(ticket: Ticket, told: WhileAway | HandedBack | NodeHandedBack) -> bool:
    """Report whether a run with this ticket is told: whoever reaches Temporal may send again what it has captured."""
    return ticket.is_of_life(told.incarnation) and told.epoch > ticket.epoch


def next_start(start: PodStart, handed: HandedBack) -> PodStart:
    """Build the input of the run that goes on with what the node hands back; `start` is the run's before."""
    return replace(
        start,
        pod=handed.pod,
        observed=handed.observed,
        first_sight=None,
        under_way=handed.under_way,
        ticket=replace(start.ticket, epoch=handed.epoch),
        handed_back=HandBack(handed.since, handed.until, handed.entries, handed.position),
    )


def next_node_start(start: NodeStart, handed: NodeHandedBack) -> NodeStart:
    """Do the same for the node's images."""
    return replace(
        start,
        observed=handed.observed,
        ticket=replace(start.ticket, epoch=handed.epoch),
        handed_back=HandBack(handed.since, handed.until, handed.entries, handed.position),
    )
