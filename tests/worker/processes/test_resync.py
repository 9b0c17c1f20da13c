"""Does the poller's regular comparison ask a Temporal that does not answer less and less, and start the node's workflow again?"""

import asyncio
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from proto.temporal.names import PodWorkflowId, node_workflow_id
from proto.temporal.node import NodeConfigured
from tests.patience import PATIENCE
from worker.daemon.config import NodeConfig
from worker.delivery.deliveries import Deliveries
from worker.delivery.lead import Leads, TemporalLeads
from worker.poller.calls.open_workflows import OpenWorkflows
from worker.poller.calls.temporal_calls import CallRefused, TemporalUnavailable
from worker.poller.runtime.relist import RuntimePod
from worker.processes import resync
from worker.processes.resync import Resync, ResyncDependencies


class FakeWorkflows:
    """Temporal, as far as it is asked."""

    def __init__(self, *answers: OpenWorkflows | Exception) -> None:
        self.answers = list(answers)
        self.started = 0
        self.deliveries = Deliveries(TemporalLeads(), lambda _: False)
        self.deliveries.take(Leads("first"))
        self.configured = asyncio.Event()
        self.failures: list[Exception] = []

    async def list_open(self) -> OpenWorkflows:
        """Answer in turn; the last answer stays."""
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def pause(self, seconds: float) -> None:
        """Wait: no other connection comes."""
        await asyncio.sleep(seconds)

    async def configure_node(self, _: NodeConfigured) -> None:
        """Count it."""
        if self.failures:
            raise self.failures.pop(0)
        self.started += 1
        self.configured.set()


async def nothing(*_: Any) -> None:
    """Do nothing."""


def made(tmp_path: Path, workflows: FakeWorkflows, **parts: Any) -> Resync:
    """Build a comparison of a node without pods."""
    quiet: Any = SimpleNamespace(
        turn=lambda *_: None,
        compare_as_backstop=nothing,
        restarted=lambda *_: None,
        set_open=lambda *_: None,
        all=dict,
        look=nothing,
    )
    config = NodeConfig("n", root_dir=tmp_path, sync_frequency=timedelta(minutes=1))
    named: Any = dict.fromkeys(("pods", "known", "watch", "orphaned", "unused", "health"), quiet) | parts
    return Resync(ResyncDependencies(config=config, workflows=workflows, cluster=None, **named))  # type: ignore[arg-type]


async def pauses_of(compared: Resync, count: int, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return its first pauses."""
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == count:
            raise asyncio.CancelledError

    monkeypatch.setattr("worker.processes.resync.asyncio.sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        await compared.run()
    return pauses


@pytest.mark.parametrize("error", [TemporalUnavailable("throttled"), CallRefused("no such attribute")])
async def test_a_temporal_that_does_not_answer_is_asked_less_and_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Up to syncFrequency, varied; once it answers, at syncFrequency."""
    workflows = FakeWorkflows(*[error] * 8, OpenWorkflows(node=True), error)
    pauses = await pauses_of(made(tmp_path, workflows), 10, monkeypatch)
    for pause, expected in zip(pauses, (2, 4, 8, 16, 32, 60, 60, 60, 60, 2), strict=True):
        assert 0.7 * expected < pause < 1.3 * expected
    assert pauses[8] == 60
    assert len(set(pauses[5:8])) == 3


async def test_nothing_counts_as_orphaned_until_the_worker_knows_what_temporal_has(tmp_path: Path) -> None:
    """As soon as it does, everything is listed anew: which pods the worker leads is known then."""
    workflows, looked = FakeWorkflows(OpenWorkflows(node=True)), asyncio.Event()
    workflows.deliveries.take(Leads("unsettled", is_settled=False))
    listed = asyncio.Event()

    async def look(*_: Any) -> None:
        looked.set()

    async def compare_as_backstop() -> dict[str, Any]:
        listed.set()
        return {}

    watch = SimpleNamespace(compare_as_backstop=compare_as_backstop, restarted=lambda *_: None)
    one: Any = SimpleNamespace(look=look)
    comparing = asyncio.create_task(made(tmp_path, workflows, watch=watch, orphaned=one, unused=one).run())
    async with asyncio.timeout(PATIENCE):
        await listed.wait()
        assert not await workflows.deliveries.settled(0.1)
        assert not looked.is_set()
        workflows.deliveries.take(Leads("settled"))
        await looked.wait()
    comparing.cancel()


async def test_a_pod_whose_snapshot_cannot_be_read_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the second comparison in a row; not one that has a snapshot, nor one whose workflow is closed."""
    shown, damaged, closed = (RuntimePod(str(PodWorkflowId("n", "default", one, one)), one, (), ()) for one in "abc")
    workflows, told = (
        FakeWorkflows(OpenWorkflows((shown.workflow_id, damaged.workflow_id), node=True)),
        list[list[str]](),
    )

    async def compare_as_backstop() -> dict[str, RuntimePod]:
        return {one.uid: one for one in (shown, damaged, closed)}

    watch = SimpleNamespace(
        compare_as_backstop=compare_as_backstop, restarted=lambda *_: None, tell_anew=lambda ids: told.append([*ids])
    )
    known = SimpleNamespace(all=lambda: {shown.uid: SimpleNamespace(path="", source="file")})
    compared = made(tmp_path, workflows, watch=watch, known=known)
    monkeypatch.setattr(resync, "may_be_listed", lambda *_: True)
    await pauses_of(compared, 1, monkeypatch)
    assert told == []
    await pauses_of(compared, 3, monkeypatch)
    assert told == [[damaged.workflow_id]]


async def test_the_nodes_workflow_is_started_again_if_it_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it was started before, and visibility has had the time to show it."""
    workflows = FakeWorkflows(OpenWorkflows(node=False))
    compared = made(tmp_path, workflows)
    await pauses_of(compared, 2, monkeypatch)
    assert workflows.started == 0, "the poller's own start is still under way"
    configuring = asyncio.create_task(compared.configure_node())
    await workflows.configured.wait()
    configuring.cancel()
    await pauses_of(compared, 2, monkeypatch)
    assert workflows.started == 1, "visibility may not show it yet"
    monkeypatch.setattr(resync, "VISIBILITY_LAGS", 0.0)
    await pauses_of(compared, 1, monkeypatch)
    assert workflows.started == 2


@pytest.mark.parametrize(
    ("now", "tried_at", "is_settled", "starts"),
    [
        pytest.param(100.0, 0.0, True, True, id="somebody-has-ended-it"),
        pytest.param(resync.START_AGAIN, 0.0, True, True, id="ended-again-after-the-pause"),
        pytest.param(9.9, 0.0, True, False, id="just-started"),
        pytest.param(100.0, None, True, False, id="its-first-start-is-under-way"),
        pytest.param(100.0, 0.0, False, False, id="the-worker-may-lead-it"),
    ],
)
def test_what_no_message_finds_is_started(now: float, tried_at: float | None, is_settled: bool, starts: bool) -> None:
    """At once, but not all the time."""
    assert resync.starts_again(now, tried_at, is_settled=is_settled) == starts


async def test_the_nodes_workflow_is_started_once_for_all_who_miss_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many pods wait, and however often each tries; also while the start has not been accepted."""
    monkeypatch.setattr(resync, "RETRY_VISIBILITY", timedelta())
    workflows = FakeWorkflows(OpenWorkflows())
    compared = made(tmp_path, workflows)
    configuring = asyncio.create_task(compared.configure_node())
    await workflows.configured.wait()
    compared.node_absent()
    assert workflows.started == 1, "it was just started"
    monkeypatch.setattr(resync, "START_AGAIN", 0.0)
    workflows.configured.clear()
    workflows.failures = [TemporalUnavailable("away")]
    compared.node_absent()
    monkeypatch.setattr(resync, "START_AGAIN", 10.0)
    for _ in range(10):
        compared.node_absent()
        await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE):
        await workflows.configured.wait()
    compared.node_absent()
    configuring.cancel()
    assert workflows.started == 2


async def test_the_node_is_configured_again_after_a_change_of_its_lead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And only then, once it is accepted."""
    monkeypatch.setattr(resync, "RETRY_VISIBILITY", timedelta())
    workflows = FakeWorkflows(OpenWorkflows())
    workflows.failures = [TemporalUnavailable("away"), CallRefused("no")]
    compared = made(tmp_path, workflows)
    configuring = asyncio.create_task(compared.configure_node())
    async with asyncio.timeout(PATIENCE):
        await workflows.configured.wait()
        compared.tell_anew(["pod/n/default/web/u1"])
        workflows.configured.clear()
        compared.tell_anew([node_workflow_id("n")])
        await workflows.configured.wait()
    configuring.cancel()
    assert workflows.started == 2
