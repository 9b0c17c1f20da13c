"""Do messages reach the worker through its socket as they were sent, and can no peer hold it up?"""

import asyncio
import socket
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from proto.temporal import names
from proto.temporal.node import NodeConfigured, NodeStart
from proto.temporal.operator import BackoffsSkipped, Explanation, Rejection, SkippedBackoff
from proto.temporal.pod import ProbeKind
from proto.temporal.signals import DeletionRequested, PodListed, ProbeVerdict, RuntimeChanged
from tests.patience import PATIENCE
from tests.worker.delivery.served_lead import ASKED, POD, SHAPES, START, Served, serving
from worker.delivery.client import SocketLead
from worker.delivery.lead import Answer, LeadUnavailable, Message, PodLead, Reply, TemporalLeads
from worker.delivery.server import LeadServer, Limits
from worker.payloads.receiving import ReceivingConverter
from worker.payloads.sending import SendingConverter


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param(names.POD_LISTED, PodListed("file", 7, {"spec": {"a": [1, None]}}, True, "poller"), id="listing"),
        pytest.param(
            names.DELETION_REQUESTED,
            DeletionRequested("file", "Removed", "gone ☃", timedelta(seconds=1.5), 8, "poller"),
            id="deletion",
        ),
        pytest.param(names.RUNTIME_CHANGED, RuntimeChanged("event", 9, ("c1",), True, "poller"), id="hint"),
        pytest.param(names.PROBE_VERDICT, ProbeVerdict("c", "c1", ProbeKind.LIVENESS, False, "x", 2), id="verdict"),
    ],
)
async def test_a_signal_arrives_as_it_was_sent(served: Served, name: str, value: Any) -> None:
    """Converted as for Temporal."""
    assert await served.client.deliver(Message(POD, name, value, "poller", 7, 1.5)) is Answer.TAKEN
    assert served.lead.told == [(POD, name, value)]


async def test_what_is_not_taken_says_for_how_long_it_is_due(served: Served) -> None:
    """And who sent it."""
    message = Message("pod/n1/default/other/u2", names.RUNTIME_CHANGED, RuntimeChanged("event"), "poller", 7, 6.5)
    assert await served.client.deliver(message) is Answer.TEMPORAL_LEADS
    assert served.lead.refused == [message]
    served.lead.unknown.add(message.workflow_id)
    assert await served.client.deliver(message) is Answer.UNKNOWN_POD


@pytest.mark.parametrize(
    ("start", "name", "said"),
    [
        pytest.param(START, names.POD_LISTED, PodListed("file", 1, sender="poller"), id="pod"),
        pytest.param(NodeStart("n1", 3), names.NODE_CONFIGURED, NodeConfigured(), id="node"),
    ],
)
async def test_a_start_arrives_with_its_signal(served: Served, start: Any, name: str, said: Any) -> None:
    """Both as they were sent."""
    assert await served.client.start(start, Message(POD, name, said)) is Answer.TAKEN
    assert served.lead.started == [start]
    assert served.lead.told == [(POD, name, said)]


async def test_a_request_is_answered_or_refused(served: Served) -> None:
    """By the pod; and not at all if Temporal leads."""
    skipped = BackoffsSkipped("root@n1", (SkippedBackoff("c", "CrashLoopBackOff", timedelta(seconds=9)),))
    served.lead.answers[names.SKIP_BACKOFF] = skipped
    assert await served.command.update(ASKED, BackoffsSkipped) == Reply(Answer.TAKEN, skipped)
    served.lead.answers[names.SKIP_BACKOFF] = Rejection("NoBackoff", "nothing waits")
    refused = Reply(Answer.TAKEN, refusal=Rejection("NoBackoff", "nothing waits"))
    assert await served.command.update(ASKED, BackoffsSkipped) == refused
    served.lead.answers[names.EXPLAIN] = Explanation("sync", "Running")
    query = Message(POD, names.EXPLAIN)
    assert await served.command.query(query, Explanation) == Reply(Answer.TAKEN, Explanation("sync", "Running"))
    served.lead.let_go(POD)
    assert await served.command.query(query, Explanation) == Reply(Answer.TEMPORAL_LEADS)


async def test_changes_are_awaited(tmp_path: Path) -> None:
    """An answer comes at once if something has changed, and otherwise after a while without news."""
    async with serving(tmp_path, Limits(poll=0.01)) as served:
        leads = await served.client.leads("")
        assert leads.pods == {POD: PodLead(True, 1)}
        assert (leads.name_taken, leads.name_unsure) == (False, False)
        assert (await served.client.leads(leads.version)).version == leads.version
        served.lead.rename(taken=True)
        leads = await served.client.leads(leads.version)
        assert (leads.name_taken, leads.name_unsure) == (True, False)
        served.lead.rename(unsure=True)
        leads = await served.client.leads(leads.version)
        assert (leads.name_taken, leads.name_unsure) == (False, True)
    async with serving(tmp_path, Limits()) as served:
        waiting = asyncio.create_task(served.client.leads(str(served.lead.version)))
        while not served.server._open:  # noqa: ASYNC110 - nothing says that a poll has begun
            await asyncio.sleep(0)
        served.lead.let_go(POD)
        assert (await asyncio.wait_for(waiting, PATIENCE)).pods == {POD: PodLead(False, 2)}


async def test_it_is_told_whether_the_leads_are_settled(tmp_path: Path) -> None:
    """And that a pod may not be started until then."""
    async with serving(tmp_path, Limits()) as served:
        served.lead.is_settled = False
        before = await served.client.leads("")
        assert not before.is_settled
        assert await served.client.lead("pod/n/default/other/u9") is Answer.NOT_SETTLED
        served.lead.settle()
        assert (await served.client.leads(before.version)).is_settled
        assert await served.client.lead("pod/n/default/other/u9") is Answer.TEMPORAL_LEADS


async def test_a_worker_that_leads_nothing_says_so(tmp_path: Path) -> None:
    """The default lead."""
    server = LeadServer(TemporalLeads(), ReceivingConverter(), SHAPES, limits=Limits(poll=0.01))
    client = SocketLead(tmp_path / "worker.sock", ReceivingConverter())
    async with server.serving(tmp_path / "worker.sock"):
        said = Message(POD, names.POD_LISTED, PodListed("file"))
        assert await client.deliver(said) is Answer.TEMPORAL_LEADS
        assert await client.start(START, said) is Answer.TEMPORAL_LEADS
        assert await client.lead(POD) is Answer.TEMPORAL_LEADS
        assert await client.update(ASKED, BackoffsSkipped) == Reply(Answer.TEMPORAL_LEADS)
        assert await client.query(Message(POD, names.EXPLAIN), Explanation) == Reply(Answer.TEMPORAL_LEADS)
        leads = await client.leads("")
        assert leads.pods == {}
        assert await client.leads(leads.version) == leads


async def test_without_a_worker_nobody_answers(tmp_path: Path) -> None:
    """No socket, and one that nobody serves any more."""
    client = SocketLead(tmp_path / "worker.sock", SendingConverter())
    with pytest.raises(LeadUnavailable):
        await client.lead(POD)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "worker.sock"))
    with pytest.raises(LeadUnavailable):
        await client.lead(POD)
    async with LeadServer(TemporalLeads(), ReceivingConverter(), SHAPES).serving(tmp_path / "worker.sock"):
        assert await client.lead(POD) is Answer.TEMPORAL_LEADS
    assert not (tmp_path / "worker.sock").exists()
