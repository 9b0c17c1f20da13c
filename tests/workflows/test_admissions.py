"""Does NodeWorkflow give pods hardware one after the other, answer each, and lose none when its run ends?"""

import asyncio
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from temporalio import activity
from temporalio.client import (
    Client,
    WorkflowHandle,
    WorkflowUpdateFailedError,
    WorkflowUpdateHandle,
    WorkflowUpdateStage,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner, Worker

from proto.temporal import names
from proto.temporal.hardware.ledger import SMT_ALIGNMENT, Admit, AllocateHardware, ContainerAssignment, PodAssignment
from proto.temporal.node import NodeStart, NodeStatus
from proto.temporal.operator import Rejection
from proto.temporal.signals import BehaviourCommitted
from tests.patience import PATIENCE
from tests.workflows.runs import run_of, until_another
from worker.delivery.deliveries import Deliveries
from worker.delivery.hardware_requests import HardwareRequests
from worker.delivery.lead import LeadUnavailable, TemporalLeads
from worker.delivery.workflow_signals import is_away
from worker.temporal.call_budget import CallBudget
from workflows.decide.node.ledger import IN_FLIGHT
from workflows.decide.versions import CURRENT_NODE, NODE_GIVES_HARDWARE
from workflows.node import NodeWorkflow


def pod(uid: str) -> dict[str, Any]:
    """Build the slice of a pod."""
    return {"metadata": {"namespace": "default", "name": uid, "uid": uid}, "spec": {}}


@dataclass
class Cpus:
    """Gives one CPU after the other, when the test lets it."""

    asked: list[AllocateHardware] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    @activity.defn(name=names.ALLOCATE_HARDWARE)
    async def allocate(self, request: AllocateHardware) -> PodAssignment:
        """Give the next CPU."""
        self.asked.append(request)
        self.begun.set()
        await self.gate.wait()
        metadata = request.pod["metadata"]
        if metadata["uid"] in self.refused:
            raise ApplicationError("not enough cpus available", type=SMT_ALIGNMENT, non_retryable=True)
        one = ContainerAssignment(str(len(self.asked)))
        return PodAssignment(metadata["namespace"], metadata["name"], {"c": one})


@dataclass
class Host:
    """A node's workflow and who asks it."""

    client: Client
    handle: WorkflowHandle[Any, Any]
    cpus: Cpus
    requests: HardwareRequests

    async def ledger(self) -> dict[str, str]:
        """Return who has which CPUs."""
        status: NodeStatus = await self.handle.query(names.NODE_STATUS, result_type=NodeStatus)
        return {uid: one.containers["c"].cpus for uid, one in status.assignments.items()}

    async def begin(self, uid: str, *counting: str) -> "asyncio.Task[Any]":
        """Send a request that is in the history when this returns; the task ends with its answer."""
        asked = Admit(pod(uid), counting)
        update = await self.handle.start_update(names.ADMIT, asked, wait_for_stage=WorkflowUpdateStage.ACCEPTED)
        return asyncio.create_task(update.result())


@pytest.fixture
async def behaviour() -> int:
    """Follow the newest one."""
    return CURRENT_NODE


@pytest.fixture
async def host(client: Client, behaviour: int) -> AsyncIterator[Host]:
    """Run a worker for the workflow of a node that was never configured."""
    name, cpus = f"n{uuid.uuid4().hex[:8]}", Cpus()
    queue = names.node_task_queue(name)
    async with Worker(
        client,
        task_queue=queue,
        workflows=[NodeWorkflow],
        activities=[cpus.allocate],
        workflow_runner=UnsandboxedWorkflowRunner(),
    ):
        workflow_id = names.node_workflow_id(name)
        await client.start_workflow(names.NODE_WORKFLOW, NodeStart(name, behaviour), id=workflow_id, task_queue=queue)
        handle = client.get_workflow_handle(workflow_id)
        requests = HardwareRequests(client, CallBudget(), Deliveries(TemporalLeads(), is_away), workflow_id)
        yield Host(client, handle, cpus, requests)
        await handle.terminate()


async def test_pods_get_theirs_one_after_the_other(host: Host) -> None:
    """The second is chosen for when the ledger has the first; a pod that is over has nothing; asking again changes nothing."""
    one = await host.begin("a")
    other = await host.begin("b", "a")
    await host.cpus.begun.wait()
    assert [asked.pod for asked in host.cpus.asked] == [pod("a")]
    host.cpus.gate.set()
    await asyncio.gather(one, other)
    assert host.cpus.asked[1].assigned.keys() == {"a"}
    assert await host.requests.admit(pod("b"), lambda: ("a",)) is None
    assert len(host.cpus.asked) == 2, "it has its own already"
    assert await host.ledger() == {"a": "1", "b": "2"}
    assert await host.requests.admit(pod("c"), lambda: ("b",)) is None
    assert await host.ledger() == {"b": "2", "c": "3"}


async def test_what_a_pod_waits_for_is_known(host: Host) -> None:
    """Its own hardware, or that of the pod before it."""
    first = asyncio.create_task(host.requests.admit(pod("a"), lambda: ()))
    await host.cpus.begun.wait()
    second = asyncio.create_task(host.requests.admit(pod("b"), lambda: ("a",)))
    await asyncio.sleep(0)
    assert [host.requests.why_waits(uid) for uid in "abc"] == [
        "its hardware is being chosen; a device plugin may take long to answer",
        "its hardware is chosen after that of default/a: pods have theirs chosen one after the other",
        "",
    ]
    host.cpus.gate.set()
    await asyncio.gather(first, second)
    assert [host.requests.why_waits(uid) for uid in "ab"] == ["", ""]


async def test_a_pod_that_goes_waits_no_longer_for_its_hardware(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the SDK makes of a cancellation; its next requests are not affected."""
    awaited, result = asyncio.Event(), WorkflowUpdateHandle.result

    async def told(handle: WorkflowUpdateHandle[Any]) -> Any:
        awaited.set()
        return await result(handle)

    monkeypatch.setattr(WorkflowUpdateHandle, "result", told)
    asking = asyncio.create_task(host.requests.admit(pod("a"), lambda: ()))
    await host.cpus.begun.wait()
    await awaited.wait()
    asking.cancel()
    async with asyncio.timeout(PATIENCE):
        await asyncio.wait({asking})
    assert asking.cancelled()
    host.cpus.gate.set()
    assert await host.requests.admit(pod("b"), lambda: ()) is None


async def test_why_a_try_failed_is_known_until_it_succeeds(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while it is tried again: no hardware is chosen where no worker runs."""
    asked = asyncio.Event()

    async def unanswered(_: Any) -> None:
        if host.requests.why_waits("a") != "its hardware is being chosen; a device plugin may take long to answer":
            asked.set()
        raise LeadUnavailable("node/n does not answer")

    monkeypatch.setattr(host.requests, "_ask", unanswered)
    asking = asyncio.create_task(host.requests.admit(pod("a"), lambda: ()))
    await asked.wait()
    why = "the worker of this node, which chooses it, does not answer (node/n does not answer)"
    assert host.requests.why_waits("a") == f"it waits for its hardware: {why}"
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)


async def test_a_pod_is_rejected_with_the_kubelets_reason(host: Host) -> None:
    """The next one is not affected."""
    host.cpus.gate.set()
    host.cpus.refused.add("a")
    rejected = await host.requests.admit(pod("a"), tuple)
    assert rejected is not None
    assert (rejected.reason, rejected.message) == (SMT_ALIGNMENT, "not enough cpus available")
    assert await host.requests.admit(pod("b"), tuple) is None
    assert await host.ledger() == {"b": "2"}


async def test_one_request_too_many_is_refused_before_the_history_has_it(host: Host) -> None:
    """Those before it are answered."""
    begun = [await host.begin(f"p{number}") for number in range(IN_FLIGHT)]
    why: Rejection | None = await host.handle.query(
        names.WHY_NOT,
        args=[names.ADMIT, Admit(pod("x"))],
        result_type=Rejection | None,  # type: ignore[arg-type]  # the converter takes unions
    )
    assert why is not None
    assert why.reason == "TooManyAdmissions"
    host.cpus.gate.set()
    await asyncio.gather(*begun)


async def test_a_run_does_not_end_before_it_has_answered(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that wait are served; the next run has the ledger."""
    monkeypatch.setattr("workflows.temporal_driver.SIGNALS_PER_RUN", 2)
    before = await run_of(host.handle)
    begun = [await host.begin("a"), await host.begin("b", "a")]
    host.cpus.gate.set()
    await asyncio.gather(*begun)
    await until_another(host.client, host.handle.id, before)
    assert await host.ledger() == {"a": "1", "b": "2"}
    assert await host.requests.admit(pod("c"), lambda: ("a", "b")) is None
    await replay(host, before)


async def test_the_history_replays(host: Host) -> None:
    """With a rejected one, and two at once."""
    host.cpus.refused.add("a")
    begun = [await host.begin("a"), await host.begin("b"), await host.begin("b")]
    host.cpus.gate.set()
    await asyncio.gather(*begun, return_exceptions=True)
    assert await host.ledger() == {"b": "2"}
    await replay(host, (await host.handle.describe()).run_id)


async def replay(host: Host, run_id: str | None) -> None:
    """Replay a run; raises if its commands differ."""
    history = await host.client.get_workflow_handle(host.handle.id, run_id=run_id).fetch_history()
    replayer = Replayer(
        workflows=[NodeWorkflow],
        workflow_runner=UnsandboxedWorkflowRunner(),
        data_converter=host.client.data_converter,
        namespace=host.client.namespace,
    )
    await replayer.replay_workflow(history)


@pytest.mark.parametrize(
    ("update", "value"),
    [
        pytest.param("Other", Admit(pod("a")), id="an-unknown-one"),
        pytest.param(names.ADMIT, 7, id="another-type"),
        pytest.param(names.ADMIT, Admit({}), id="no-pod"),
    ],
)
async def test_a_malformed_request_is_refused(host: Host, update: str, value: Any) -> None:
    """The run goes on."""
    with pytest.raises(WorkflowUpdateFailedError):
        await host.handle.execute_update(update, value)
    host.cpus.gate.set()
    assert await host.requests.admit(pod("a"), tuple) is None


@pytest.mark.parametrize("behaviour", [NODE_GIVES_HARDWARE - 1])
async def test_a_run_of_an_older_behaviour_takes_none_until_it_is_raised(host: Host) -> None:
    """A worker of the release before could not replay it; who asks waits."""
    asking = asyncio.create_task(host.requests.admit(pod("a"), tuple))
    host.cpus.gate.set()
    with pytest.raises(WorkflowUpdateFailedError):
        await host.handle.execute_update(names.ADMIT, Admit(pod("b")))
    assert not host.cpus.asked
    await host.handle.signal(names.BEHAVIOUR_COMMITTED, BehaviourCommitted(NODE_GIVES_HARDWARE))
    async with asyncio.timeout(PATIENCE):
        assert await asking is None


async def test_a_terminated_workflow_is_asked_again_when_it_is_back(host: Host) -> None:
    """The answer is lost with the run, and the pod gets its hardware from the next one."""
    asking = asyncio.create_task(host.requests.admit(pod("a"), tuple))
    await host.cpus.begun.wait()
    described = await host.handle.describe()
    await host.handle.terminate()
    host.cpus.gate.set()
    name = host.handle.id.partition("/")[2]
    await host.client.start_workflow(
        names.NODE_WORKFLOW, NodeStart(name, CURRENT_NODE), id=host.handle.id, task_queue=described.task_queue
    )
    async with asyncio.timeout(PATIENCE):
        try:
            assert await asking is None
        except RPCError as error:  # pragma: no cover - says why
            pytest.fail(str(error))
    assert "a" in await host.ledger()


async def test_a_workflow_that_somebody_has_ended_is_started_by_who_misses_it(host: Host) -> None:
    """It was terminated before the request, and nobody else starts it."""
    described, missed = await host.handle.describe(), list[asyncio.Task[Any]]()
    start = NodeStart(host.handle.id.partition("/")[2], CURRENT_NODE)

    def absent() -> None:
        starting = host.client.start_workflow(
            names.NODE_WORKFLOW, start, id=host.handle.id, task_queue=described.task_queue
        )
        missed.append(asyncio.create_task(starting))

    host.requests.absent = absent
    host.cpus.gate.set()
    assert await host.requests.admit(pod("a"), tuple) is None
    assert not missed, "it is open"
    await host.handle.terminate()
    async with asyncio.timeout(PATIENCE):
        assert await host.requests.admit(pod("b"), lambda: ("a",)) is None
    assert await missed[0]
    assert "b" in await host.ledger()
