"""Are all runs of a pod fetched, whichever of them the list of workflows has?"""

from collections.abc import Sequence

import pytest
from temporalio.api.history.v1 import HistoryEvent
from temporalio.service import RPCError, RPCStatusCode

from worker.commands.access.pod_runs import Events, histories_of

CHAIN = ("first", "second", "third")
REPLACED = "replaced"
"""A run of its own, before the chain."""


def run_of(before: str, name: str, after: str) -> Events:
    """Build the first and the last event of a run."""
    first, last = HistoryEvent(), HistoryEvent()
    started = first.workflow_execution_started_event_attributes
    started.original_execution_run_id, started.continued_execution_run_id = name, before
    if after:
        last.workflow_execution_continued_as_new_event_attributes.new_execution_run_id = after
    return [first, last]


RUNS = {
    REPLACED: run_of("", REPLACED, ""),
    "first": run_of("", "first", "second"),
    "second": run_of("first", "second", "third"),
    "third": run_of("second", "third", ""),
}


def names(found: Sequence[Events]) -> list[str]:
    """Return which runs these are."""
    return [one[0].workflow_execution_started_event_attributes.original_execution_run_id for one in found]


async def fetch(run_id: str) -> Events:
    """Fetch one."""
    return RUNS[run_id]


async def fetch_kept(run_id: str) -> Events:
    """Fetch one, if it is not the first, whose retention is over."""
    if run_id == "first":
        raise RPCError("workflow execution not found", RPCStatusCode.NOT_FOUND, b"")
    return RUNS[run_id]


@pytest.mark.parametrize(
    ("listed", "told"),
    [
        pytest.param(CHAIN, CHAIN, id="all"),
        pytest.param(("third",), CHAIN, id="the-newest-alone"),
        pytest.param(("first",), CHAIN, id="the-oldest-alone"),
        pytest.param(("first", "third"), CHAIN, id="not-the-one-between"),
        pytest.param((REPLACED, "third"), (REPLACED, *CHAIN), id="beside-a-run-of-its-own"),
        pytest.param((), (), id="none"),
    ],
)
async def test_runs_that_are_not_listed_are_found_by_their_neighbours(
    listed: Sequence[str], told: Sequence[str]
) -> None:
    """Oldest first, each once."""
    assert names(await histories_of(listed, fetch)) == list(told)


async def test_a_run_whose_retention_is_over_is_left_out() -> None:
    """The later ones are told."""
    assert names(await histories_of(["third"], fetch_kept)) == ["second", "third"]


async def test_a_run_that_cannot_be_fetched_is_no_shorter_history() -> None:
    """The error reaches the user."""

    async def unreachable(run_id: str) -> Events:
        if run_id == "second":
            raise RPCError("away", RPCStatusCode.UNAVAILABLE, b"")
        return RUNS[run_id]

    with pytest.raises(RPCError):
        await histories_of(["third"], unreachable)
