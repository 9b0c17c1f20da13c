"""What a worker puts around its workflows and activities, so that only runs of this node act and are shown."""

from collections.abc import Callable, Iterable

import structlog
from temporalio import workflow
from temporalio.worker import Interceptor

from activities.execution.present_attempts import PresentAttempts
from proto.pod_snapshot import PodSnapshot, is_over
from proto.temporal.names import node_workflow_id
from proto.temporal.ticket import UNTICKETED
from worker.tickets.gate import Refusals, TicketGate
from worker.tickets.held import Verdict
from worker.tickets.seal import TicketSeal
from worker.tickets.showing import ShowingTickets
from worker.tickets.tickets import Tickets

_log = structlog.get_logger(__name__)


def _at_once(_workflow_id: str, _what: str, say: Callable[[], None]) -> None:
    say()


def _nobody(_workflow_id: str, _run_id: str) -> None:
    pass


class TicketGuard:
    """The tickets of one worker's node."""

    def __init__(self, tickets: Tickets, seal: TicketSeal) -> None:
        self.tickets, self.seal = tickets, seal

    def interceptors(self, present: PresentAttempts, refusals: Refusals) -> tuple[Interceptor, ...]:
        """Return what goes around all other interceptors that act."""
        gate = TicketGate(self.tickets, self.seal, present, refusals)
        return ShowingTickets(self.tickets, self.seal), gate

    def only_of_leaders(
        self,
        publish: Callable[[PodSnapshot], None],
        say: Callable[[str, str, Callable[[], None]], None] = _at_once,
        *,
        refused: Callable[[str, str], object] = _nobody,
    ) -> Callable[[PodSnapshot], None]:
        """Pass on the snapshots of runs that may act; those of others are shown nowhere. Called by the runs themselves, in any thread.

        `say` is given the workflow, what is said of it, and what says it, at once or later. `refused` is told the workflow and the
        run that may not act: one whose ticket was lost may have nothing to do for days, and its pod would be shown nowhere so long.
        """

        def publish_if_it_leads(snapshot: PodSnapshot) -> None:
            run_id = workflow.info().run_id

            def if_it_leads() -> None:
                verdict = self.tickets.judge(snapshot.workflow_id, snapshot.ticket, run_id)
                if verdict is Verdict.PASSES:
                    publish(snapshot)
                elif verdict is Verdict.REFUSED:
                    refused(snapshot.workflow_id, run_id)

            say(snapshot.workflow_id, "its snapshot", if_it_leads)

        return publish_if_it_leads


def know_pods(tickets: Tickets, node: str, snapshots: Iterable[PodSnapshot]) -> None:
    """Take the tickets of the pods that this node had when its worker stopped; blocks on files.

    Only runs that lead their pod have snapshots. One without a ticket was published by a release that drew none, so its run is
    admitted. Where the folder of tickets was lost, it is made anew.
    """
    known = [(one.workflow_id, one.ticket) for one in snapshots if not is_over(one)]
    for workflow_id, ticket in (*known, (node_workflow_id(node), UNTICKETED)):
        try:
            if workflow_id != node_workflow_id(node) or tickets.held(workflow_id) is None:
                tickets.know(workflow_id, ticket)
        except OSError as error:
            _log.error("the ticket of a workflow cannot be written", workflow=workflow_id, err=str(error))
