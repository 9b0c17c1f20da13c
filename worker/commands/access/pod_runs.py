"""The histories of all runs of one pod's workflow, also of those that the list of workflows lacks: visibility lags behind a busy Temporal."""

from collections.abc import Awaitable, Callable, Sequence

from temporalio.api.history.v1 import HistoryEvent
from temporalio.service import RPCError, RPCStatusCode

Events = Sequence[HistoryEvent]


async def histories_of(runs: Sequence[str], fetch: Callable[[str], Awaitable[Events]]) -> list[Events]:
    """Fetch these runs, oldest first, and those that continue-as-new joins to them; one whose retention is over is left out."""
    known, found = set(runs), list[Events]()
    for run_id in runs:
        chain = [await fetch(run_id)]
        while (before := _before(chain[0])) and before not in known:
            known.add(before)
            try:
                chain.insert(0, await fetch(before))
            except RPCError as error:
                if error.status is not RPCStatusCode.NOT_FOUND:
                    raise
                break
        found += chain
    while found and (after := _after(found[-1])) and after not in known:
        known.add(after)
        found.append(await fetch(after))
    return found


def _before(events: Events) -> str:
    return events[0].workflow_execution_started_event_attributes.continued_execution_run_id


def _after(events: Events) -> str:
    return events[-1].workflow_execution_continued_as_new_event_attributes.new_execution_run_id
