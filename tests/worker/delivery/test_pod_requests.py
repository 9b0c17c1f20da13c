"""Do the node's own requests reach whoever leads the pod, and does it learn why a pod rejects one?"""

from datetime import timedelta
from typing import Any

import pytest
from temporalio.client import WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from proto.temporal.names import EVICT_POD
from proto.temporal.operator import EvictPod, PodEvicted, Rejection
from tests.worker.delivery.fake_lead import FakeLead
from worker.delivery.deliveries import Deliveries
from worker.delivery.pod_requests import GONE, PodRequests
from worker.delivery.workflow_signals import is_away
from worker.temporal.call_budget import CallBudget

POD = "pod/n/default/web/u1"
ASKED = EvictPod("", "Evicted", "low", timedelta(seconds=1))
GOING = Rejection("Going", "it is terminating")


class FakeClient:
    """Plays Temporal's client and the handle of the pod's workflow."""

    def __init__(self) -> None:
        self.taken: list[EvictPod] = []
        self.answers: list[Any] = []
        self.why_not: Rejection | None = None
        self.error: Exception | None = None

    def get_workflow_handle(self, workflow_id: str) -> "FakeClient":
        """Return the handle."""
        assert workflow_id == POD
        return self

    async def query(self, *_: Any, **__: Any) -> Rejection | None:
        """Say why it would be rejected."""
        return self.why_not

    async def execute_update(self, _: str, asked: EvictPod, **said: Any) -> None:
        """Take a request."""
        if self.error:
            raise self.error
        assert said["id"] == f"worker-{asked.sequence}"
        self.answers.append(said["result_type"])
        self.taken.append(asked)


@pytest.fixture
def client() -> FakeClient:
    """Play Temporal."""
    return FakeClient()


@pytest.fixture
def lead() -> FakeLead:
    """Play the worker's lead, which leads no pod at first."""
    return FakeLead()


async def ask(client: FakeClient, lead: FakeLead, *, reads_answers: bool = True) -> Rejection | None:
    """Ask for an eviction."""
    deliveries = Deliveries(lead, is_away)
    requests = PodRequests(client, CallBudget(), deliveries, reads_answers=reads_answers)  # type: ignore[arg-type]  # plays Client
    return await requests.ask(POD, ASKED)


async def test_temporal_takes_it(client: FakeClient, lead: FakeLead) -> None:
    """Each with a number of its own."""
    assert await ask(client, lead) is None
    assert await ask(client, lead) is None
    first, second = client.taken
    assert (first.source, first.reason, first.grace) == ("worker", "Evicted", timedelta(seconds=1))
    assert 0 < first.sequence != second.sequence > 0
    assert lead.told == []


async def test_a_process_that_only_sends_reads_no_answer(client: FakeClient, lead: FakeLead) -> None:
    """Its converter does not know how times are written."""
    await ask(client, lead)
    await ask(client, lead, reads_answers=False)
    assert client.answers == [PodEvicted, Any]


@pytest.mark.parametrize(
    ("why_not", "error", "rejected"),
    [
        pytest.param(GOING, None, GOING, id="it-says-so-before"),
        pytest.param(
            None, WorkflowUpdateFailedError(ApplicationError("it is terminating", type="Going")), GOING, id="or-then"
        ),
        pytest.param(None, RPCError("gone", RPCStatusCode.NOT_FOUND, b""), GONE, id="its-workflow-has-ended"),
    ],
)
async def test_a_pod_that_rejects_it(
    client: FakeClient, lead: FakeLead, why_not: Rejection | None, error: Exception | None, rejected: Rejection
) -> None:
    """The node passes it over."""
    client.why_not, client.error = why_not, error
    assert await ask(client, lead) == rejected
    assert client.taken == []


async def test_the_worker_takes_it_while_temporal_is_away(client: FakeClient, lead: FakeLead) -> None:
    """It leads the pod, and may reject it, too."""
    client.error = RPCError("away", RPCStatusCode.UNAVAILABLE, b"")
    lead.take(POD)
    assert await ask(client, lead) is None
    assert [(workflow_id, name) for workflow_id, name, _ in lead.told] == [(POD, EVICT_POD)]
    lead.answers[EVICT_POD] = GOING
    assert await ask(client, lead) == GOING


async def test_nobody_takes_it(client: FakeClient, lead: FakeLead) -> None:
    """It is asked again in the next round."""
    client.error = RPCError("away", RPCStatusCode.UNAVAILABLE, b"")
    with pytest.raises(RPCError):
        await ask(client, lead)
