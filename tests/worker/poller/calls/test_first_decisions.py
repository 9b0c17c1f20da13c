"""Is a pod that Temporal was told of told anew until somebody has decided about it?"""

import asyncio
from collections.abc import AsyncIterator, Collection

import pytest

from tests.patience import PATIENCE
from worker.poller.calls.first_decisions import FirstDecisions


class Pods:
    """Pods that wait for their first decision, and what they were told anew."""

    def __init__(self) -> None:
        self.awaited = {"a", "b"}
        self.told: list[str] = []
        self.more = asyncio.Event()
        self.decisions = FirstDecisions(self.awaited.__contains__, self._tell, first_wait=0.01)

    async def until_told(self, count: int) -> None:
        """Wait until pods were told anew so often."""
        async with asyncio.timeout(PATIENCE):
            while len(self.told) < count:
                self.more.clear()
                await self.more.wait()

    def _tell(self, workflow_ids: Collection[str]) -> None:
        self.told += workflow_ids
        self.more.set()


@pytest.fixture
async def pods() -> AsyncIterator[Pods]:
    """Make pods of which none has been decided about."""
    made = Pods()
    yield made
    made.decisions.close()


async def test_a_pod_is_told_anew_until_it_is_decided_about(pods: Pods) -> None:
    """Its start may be sent again meanwhile; a pod that is decided about in time is told nothing."""
    pods.decisions.started("a")
    pods.decisions.started("b")
    pods.awaited.discard("b")
    await pods.until_told(2)
    pods.decisions.started("a")
    await pods.until_told(3)
    pods.awaited.clear()
    pods.decisions.started("c")
    assert set(pods.told) == {"a"}
    assert pods.decisions.undecided() == []


async def test_all_that_wait_are_known_when_the_worker_begins_to_lead(pods: Pods) -> None:
    """They need not wait for their turn."""
    pods.decisions.started("a")
    assert pods.decisions.undecided() == ["a"]
