"""Is the ticket of a pod that is gone forgotten, and of no other?"""

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from activities.execution.pod_locks import PodLocks
from worker.poller.runtime.unused_tickets import KEPT_SECONDS, UnusedTickets
from worker.tickets.tickets import Tickets

POD = "pod/n/default/web/u1"


@dataclass
class Known:
    """What Temporal and the sources say."""

    open: set[str] = field(default_factory=set)
    listed: set[str] = field(default_factory=set)
    """UIDs."""
    starts: PodLocks = field(default_factory=PodLocks)

    async def is_open(self, workflow_id: str) -> bool:
        """Answer by the workflow's own record."""
        return workflow_id in self.open


@pytest.fixture
def known() -> Known:
    """Return a node without pods."""
    return Known()


@pytest.fixture
def tickets(tmp_path: Path) -> Tickets:
    """Return its tickets, one of them of a pod."""
    made = Tickets(tmp_path)
    made.draw(POD)
    return made


@pytest.fixture
def unused(tickets: Tickets, known: Known) -> UnusedTickets:
    """Return what forgets them."""
    workflows: Any = known
    return UnusedTickets(tickets, workflows, "n", lambda uid: uid in known.listed)


async def test_the_second_listing_forgets_it(tickets: Tickets, unused: UnusedTickets) -> None:
    """Somebody has terminated its run, and its manifest is gone."""
    await unused.look([])
    assert tickets.of(POD) is not None
    await unused.look([])
    assert tickets.held(POD) is None


@pytest.mark.parametrize("kept_by", ["visibility", "its-own-record", "a-source", "another-node"])
async def test_what_may_still_be_needed_stays(
    tickets: Tickets, unused: UnusedTickets, known: Known, kept_by: str
) -> None:
    """However often it is looked for."""
    other = "pod/another/default/web/u1"
    tickets.draw(other)
    known.open = {POD} if kept_by == "its-own-record" else set()
    known.listed = {"u1"} if kept_by == "a-source" else set()
    for _ in range(3):
        await unused.look([POD] if kept_by == "visibility" else [])
    assert tickets.of(other) is not None
    assert (tickets.of(POD) is not None) == (kept_by != "another-node")


async def test_a_pod_that_is_started_in_between_keeps_it(tickets: Tickets, unused: UnusedTickets) -> None:
    """Two listings in a row must have found it unused."""
    await unused.look([])
    await unused.look([POD])
    await unused.look([])
    assert tickets.of(POD) is not None


async def test_what_is_over_is_removed_later(tickets: Tickets, unused: UnusedTickets, tmp_path: Path) -> None:
    """Not at once: Temporal may have refused the completion."""
    tickets.complete(POD, tickets.draw(POD), "r")
    for _ in range(3):
        await unused.look([])
    held = tickets.held(POD)
    assert held is not None
    assert held.is_over
    (file,) = (tmp_path / "tickets").iterdir()
    long_ago = time.time() - KEPT_SECONDS - 1
    os.utime(file, (long_ago, long_ago))
    await unused.look([])
    assert list(tickets.all()) == []
