"""Do the worker's own signals have numbers, and reach whoever leads the pod?"""

from typing import Any

import pytest
from temporalio.service import RPCError, RPCStatusCode

from activities.execution.attempt import NotDelivered, WorkflowGone
from proto.temporal.names import OBJECTS_CHANGED, STORAGE_EXCEEDED
from proto.temporal.pod import ProbeKind
from proto.temporal.signals import ObjectsChanged, ProbeVerdict, StorageExceeded
from tests.worker.delivery.fake_lead import FakeLead
from worker.delivery.lead import LeadUnavailable
from worker.delivery.workflow_signals import WorkflowSignals
from worker.temporal.call_budget import CallBudget
from worker.temporal.signal_numbers import SignalNumbers

POD = "pod/n/default/web/u1"
FULL = StorageExceeded("local-storage", "data", 7)


class FakeClient:
    """Plays Temporal's client and the handle of each workflow."""

    def __init__(self) -> None:
        self.taken: list[Any] = []
        self.error: Exception | None = None

    def get_workflow_handle(self, workflow_id: str) -> "FakeClient":
        """Return the handle."""
        assert workflow_id == POD
        return self

    async def signal(self, _: str, value: Any, **__: Any) -> None:
        """Take a signal."""
        if self.error:
            raise self.error
        self.taken.append(value)


class Worker:
    """A worker's signals."""

    def __init__(self) -> None:
        self.client, self.lead = FakeClient(), FakeLead()
        self.signals = WorkflowSignals(self.client, CallBudget(), SignalNumbers(100), self.lead)  # type: ignore[arg-type]  # plays Client


async def test_each_signal_has_a_number() -> None:
    """Whatever it is about."""
    worker = Worker()
    await worker.signals.send(POD, STORAGE_EXCEEDED, FULL)
    await worker.signals.send(POD, OBJECTS_CHANGED, ObjectsChanged("objects", {"configmaps/a": "2"}))
    assert worker.client.taken == [
        StorageExceeded("local-storage", "data", 7, sequence=101, sender="worker"),
        ObjectsChanged("objects", {"configmaps/a": "2"}, 102, "worker"),
    ]


def failure(status: RPCStatusCode) -> RPCError:
    """Build an error of a call."""
    return RPCError("", status, b"")


@pytest.mark.parametrize(
    ("error", "led", "raised", "asked"),
    [
        pytest.param(failure(RPCStatusCode.NOT_FOUND), True, None, False, id="an-ended-workflow-needs-none"),
        pytest.param(failure(RPCStatusCode.UNAVAILABLE), True, None, True, id="away-and-led-by-the-worker"),
        pytest.param(failure(RPCStatusCode.DEADLINE_EXCEEDED), True, None, True, id="unanswered"),
        pytest.param(RuntimeError("no connection"), True, None, True, id="never-connected"),
        pytest.param(failure(RPCStatusCode.UNAVAILABLE), False, RPCError, True, id="away-and-led-by-nobody"),
        pytest.param(failure(RPCStatusCode.INVALID_ARGUMENT), True, RPCError, False, id="refused"),
        pytest.param(failure(RPCStatusCode.PERMISSION_DENIED), True, RPCError, False, id="forbidden"),
    ],
)
async def test_what_a_failed_call_means(
    error: Exception, led: bool, raised: type[Exception] | None, asked: bool
) -> None:
    """The worker is asked only if Temporal did not answer."""
    worker = Worker()
    worker.client.error = error
    if led:
        worker.lead.take(POD)
    if raised:
        with pytest.raises(raised):
            await worker.signals.send(POD, STORAGE_EXCEEDED, FULL)
    else:
        await worker.signals.send(POD, STORAGE_EXCEEDED, FULL)
    assert bool(worker.lead.told or worker.lead.refused) is asked
    assert len(worker.lead.told) == (asked and led)


async def test_a_lead_that_fails_is_no_reason_to_call_temporal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop tries again."""
    worker = Worker()
    worker.lead.take(POD)
    worker.signals.deliveries.take(await worker.lead.leads(""))

    async def fail(_: object) -> None:
        raise LeadUnavailable

    monkeypatch.setattr(worker.lead, "deliver", fail)
    with pytest.raises(LeadUnavailable):
        await worker.signals.send(POD, STORAGE_EXCEEDED, FULL)
    assert worker.client.taken == []


@pytest.mark.parametrize(
    ("error", "led", "raised"),
    [
        pytest.param(None, True, None, id="temporal-takes-it"),
        pytest.param(NotDelivered("away"), True, None, id="away-and-led-by-the-worker"),
        pytest.param(NotDelivered("away"), False, NotDelivered, id="away-and-led-by-nobody"),
        pytest.param(WorkflowGone("gone"), True, WorkflowGone, id="gone"),
    ],
)
async def test_a_verdict_is_told_once(error: Exception | None, led: bool, raised: type[Exception] | None) -> None:
    """With the number that its probe gave it."""
    worker, verdict = Worker(), ProbeVerdict("c", "c1", ProbeKind.LIVENESS, False, sequence=3)
    told = []
    if led:
        worker.lead.take(POD)

    async def tell() -> None:
        if error:
            raise error
        told.append(verdict)

    if raised:
        with pytest.raises(raised):
            await worker.signals.tell_verdict(POD, verdict, tell)
    else:
        await worker.signals.tell_verdict(POD, verdict, tell)
        assert [*told, *(value for _, _, value in worker.lead.told)] == [verdict]


async def test_a_verdict_that_the_worker_does_not_take_is_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe tries again."""
    worker = Worker()
    worker.lead.take(POD)
    worker.signals.deliveries.take(await worker.lead.leads(""))

    async def fail(_: object) -> None:
        raise LeadUnavailable

    monkeypatch.setattr(worker.lead, "deliver", fail)
    with pytest.raises(NotDelivered):
        await worker.signals.tell_verdict(POD, ProbeVerdict("c", "c1", ProbeKind.LIVENESS, False), never)


async def never() -> None:
    """Fail, if it is called."""
    raise AssertionError
