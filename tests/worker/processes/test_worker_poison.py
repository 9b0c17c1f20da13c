"""Does one bad pod, object, snapshot or run stop a loop of the worker or of the node process, or what it does for the others?

Each row feeds one poison to a loop, together with something healthy. `test_poison.py` does the same with a whole poller.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from activities.clients.api_server.reflector import Changed, Listed
from activities.clients.api_server.resources import SERVICES
from proto.pod_snapshot import PodSnapshot
from tests.patience import PATIENCE
from tests.worker.poller.snapshots import snapshot
from worker.api_objects.informer import Informer
from worker.api_objects.token_rotation import mounted_tokens
from worker.daemon import loop_restarts
from worker.daemon.service import Service
from worker.daemon.troubles import TROUBLES
from worker.processes import node as node_process
from worker.processes.cluster_worker import ClusterWorker
from worker.status.api_pods import ApiPods
from worker.status.keeper import StatusKeeper

Object = dict[str, Any]
GOOD: Object = {"metadata": {"namespace": "default", "name": "good", "uid": "u", "resourceVersion": "2"}}
AWAY = SimpleNamespace(server="nowhere")
"""Stands for an API server that is not asked."""


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"metadata": None}, id="no-metadata"),
        pytest.param({"metadata": {"name": "bad"}}, id="half-of-the-metadata"),
        pytest.param({"metadata": {**GOOD["metadata"], "resourceVersion": "x"}}, id="a-version-that-is-no-number"),
        pytest.param({"metadata": GOOD["metadata"], "status": "Running"}, id="a-status-that-is-a-text"),
        pytest.param({"metadata": GOOD["metadata"], "status": {"containerStatuses": [{}]}}, id="a-nameless-container"),
    ],
)
def test_a_malformed_pod_of_the_api_hides_no_other(bad: Object) -> None:
    """In a list, as a change and as a deletion."""
    changed: list[Any] = []
    pods = ApiPods(AWAY, "n", changed.append)  # type: ignore[arg-type]  # not asked
    bad = {**bad, "metadata": {**bad["metadata"], "name": "bad"}} if bad.get("metadata") else bad
    for news in (Changed("ADDED", bad), Changed("DELETED", bad), Listed((bad, GOOD))):
        pods._apply(news)
    assert pods.get(("default", "good")) is not None
    assert changed == [("default", "good")]


@pytest.mark.parametrize("bad", [{}, {"metadata": None}, {"metadata": {}}, {"metadata": []}])
async def test_a_malformed_object_of_a_cached_kind_hides_no_other(bad: Object) -> None:
    """In a list, as a change and as a deletion."""
    cache = Informer(AWAY, SERVICES)  # type: ignore[arg-type]  # not asked
    for news in (Listed((bad, GOOD)), Changed("MODIFIED", bad), Changed("DELETED", bad)):
        cache._take(news)
    assert list(cache.known) == [("default", "good")]


async def test_a_snapshot_of_any_form_stops_no_other_status(monkeypatch: pytest.MonkeyPatch) -> None:
    """The keeper queues the healthy pod's."""
    keeper = StatusKeeper(AWAY, "n")  # type: ignore[arg-type]  # not asked
    monkeypatch.setattr(keeper, "_ask", partial(fail_for, "bad", keeper._ask))
    keeper._arrived = {uid: snapshot(uid) for uid in ("bad", "good")}
    keeper._take_arrived()
    assert "good" in keeper._queue._later


def fail_for(uid: str, ask: Callable[[str], None], asked: str) -> None:
    """Play a defect that one pod causes."""
    if asked == uid:
        raise KeyError("conditions")
    ask(asked)


def test_a_token_key_of_any_form_hides_no_other_token() -> None:
    """Snapshots are read from a file."""
    version = "20261122T120000Z/20261122T130000Z"
    bad = [
        replace(snapshot("b1"), objects={"serviceaccounttokens/x": "a/b"}),
        replace(snapshot("b2"), objects={"serviceaccounttokens/3600/vault": "a/b"}, pod={"spec": 3}),
    ]
    known = list(mounted_tokens([replace(snapshot("g"), objects={"serviceaccounttokens/3600/vault": version})]))
    assert [one.pod.uid for one in mounted_tokens([*bad, *(one.pod for one in known)])] == [
        one.pod.uid for one in known
    ]


def test_a_reader_of_snapshots_that_fails_stops_neither_the_workflow_nor_the_others() -> None:
    """Snapshots are published inside workflow tasks: an error there would fail the task for ever."""
    read: list[str] = []

    def fail(_: PodSnapshot) -> None:
        raise TypeError("a defect in one reader")

    def note(name: str) -> Callable[[PodSnapshot], None]:
        return lambda _: read.append(name)

    worker: Any = SimpleNamespace(
        keeper=SimpleNamespace(publish=fail),
        events=SimpleNamespace(publish=note("events")),
        late_ends=SimpleNamespace(publish=note("late ends")),
        objects=SimpleNamespace(observe=note("objects")),
    )
    ClusterWorker.observe(worker, note("cache"))(snapshot("u"))
    assert read == ["cache", "events", "late ends", "objects"]


async def test_every_part_of_the_node_process_is_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each fails once for a reason that nobody foresaw; the process goes on."""
    monkeypatch.setattr(loop_restarts, "FIRST_PAUSE", 0.01)
    TROUBLES.__init__()  # type: ignore[misc]  # the record is one a process
    runs: list[str] = []
    all_run = asyncio.Event()

    def part(name: str) -> Callable[[Any], Any]:
        async def run(_: object) -> None:
            runs.append(name)
            if runs.count(name) == 1:
                raise KeyError(f"a defect in {name}")
            if all(runs.count(one) == 2 for one in node_process.PARTS):
                all_run.set()
            await asyncio.Event().wait()

        return run

    monkeypatch.setattr(node_process, "PARTS", {name: part(name) for name in node_process.PARTS})
    service = Service(lambda: "", environment={})
    config = SimpleNamespace(node_name="n", sync_frequency=datetime.now(UTC) - datetime.now(UTC).replace(year=2020))
    running = asyncio.create_task(node_process._run_parts(SimpleNamespace(config=config, service=service)))  # type: ignore[arg-type]
    async with asyncio.timeout(PATIENCE):
        await all_run.wait()
        service.stop()
        await running
    assert set(TROUBLES.failures()) == set(node_process.PARTS)
    TROUBLES.__init__()  # type: ignore[misc]
