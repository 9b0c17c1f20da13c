"""Does throttling lower the load of a process, for all its calls together, and does it end?"""

import asyncio
from itertools import pairwise

import pytest
from google.protobuf.any_pb2 import Any
from temporalio.api.common.v1 import GrpcStatus
from temporalio.api.enums.v1 import ResourceExhaustedCause
from temporalio.api.errordetails.v1 import ResourceExhaustedFailure
from temporalio.service import RPCError, RPCStatusCode

from worker.temporal import call_budget
from worker.temporal.call_budget import CallBudget, is_throttling

EXHAUSTED = RPCError("namespace rate limit exceeded", RPCStatusCode.RESOURCE_EXHAUSTED, b"")


class StandStill:
    """A clock that only a sleep moves: sleepers wake in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []
        monkeypatch.setattr(call_budget, "clock", lambda: self.now)
        monkeypatch.setattr(call_budget, "sleep", self._sleep)

    async def _sleep(self, seconds: float) -> None:
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.now + seconds, waiting))
        await waiting

    async def run_until(self, end: float) -> None:
        """Let time pass."""
        while True:
            for _ in range(50):
                await asyncio.sleep(0)
            due = sorted((one for one in self._sleepers if one[0] <= end), key=lambda one: one[0])
            if not due:
                self.now = end
                return
            self._sleepers.remove(due[0])
            self.now = max(self.now, due[0][0])
            due[0][1].set_result(None)


class Temporal:
    """Throttles until the test says otherwise, and notes when it was asked."""

    def __init__(self, clock: StandStill) -> None:
        self.clock, self.throttles = clock, True
        self.asked: list[float] = []

    async def call(self, budget: CallBudget) -> None:
        """Make one call, repeated at once while it is throttled, as a careless caller does."""
        while True:
            try:
                async with budget.call():
                    self.asked.append(self.clock.now)
                    if self.throttles:
                        raise EXHAUSTED
                return
            except RPCError:
                await asyncio.sleep(0)


async def test_throttling_lowers_the_load_of_all_callers_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred careless callers ask a throttling Temporal about once a minute, and all are served once it is over."""
    clock = StandStill(monkeypatch)
    temporal, budget = Temporal(clock), CallBudget()
    callers = [asyncio.create_task(temporal.call(budget)) for _ in range(100)]
    await clock.run_until(1000 + 3600)
    first, last = [at for at in temporal.asked if at < 1010], [at for at in temporal.asked if at > 1000 + 1800]
    assert len(first) < 100 + 10  # those that were under way together, and a few more
    assert 15 <= len(last) <= 60
    assert len({round(after - before) for before, after in pairwise(last)}) > 5, "they are spread"
    temporal.throttles = False
    await clock.run_until(clock.now + 600)
    assert all(one.done() for one in callers)
    assert not budget.is_throttled


async def test_without_throttling_no_call_waits() -> None:
    """Other errors do not count, and neither does a message that is too large."""
    budget = CallBudget()
    for status, words in (
        (RPCStatusCode.UNAVAILABLE, "away"),
        (RPCStatusCode.RESOURCE_EXHAUSTED, "grpc: received message larger than max"),
    ):
        with pytest.raises(RPCError):
            async with budget.call():
                raise RPCError(words, status, b"")
    assert not budget.is_throttled


def exhausted(cause: "ResourceExhaustedCause.ValueType") -> bytes:
    """Write the status with which Temporal names a cause."""
    detail = Any()
    detail.Pack(ResourceExhaustedFailure(cause=cause))
    return GrpcStatus(code=8, details=[detail]).SerializeToString()


@pytest.mark.parametrize(
    ("status", "throttles"),
    [
        pytest.param(b"", True, id="no-cause"),
        pytest.param(exhausted(ResourceExhaustedCause.RESOURCE_EXHAUSTED_CAUSE_RPS_LIMIT), True, id="too-many-calls"),
        pytest.param(
            exhausted(ResourceExhaustedCause.RESOURCE_EXHAUSTED_CAUSE_BUSY_WORKFLOW), False, id="one-busy-workflow"
        ),
        pytest.param(b"\xff" * 9, True, id="no-status-of-temporal"),
    ],
)
def test_whoever_keeps_one_workflow_busy_slows_no_other(status: bytes, *, throttles: bool) -> None:
    """Temporal refuses a pod's signals while its run waits to continue as new, in the way in which it throttles."""
    assert is_throttling(RPCError("refused", RPCStatusCode.RESOURCE_EXHAUSTED, status)) is throttles
