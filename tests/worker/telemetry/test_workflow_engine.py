"""Does what the worker tells of Temporal reach the node process, `tempolet pods` and the metrics?"""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from worker.daemon.config import NodeConfig
from worker.node.process.peers import GRACE_SECONDS, PeerProcesses
from worker.telemetry.local_socket import serving_texts, socket_path
from worker.telemetry.metrics import Metrics
from worker.telemetry.process import open_telemetry
from worker.telemetry.workflow_engine import LONGEST_WHY, WORKFLOW_ENGINE, WorkflowEngine, as_text, workflow_engine

SINCE = datetime(2026, 11, 22, 12, tzinfo=UTC)
TAKEN = WorkflowEngine(SINCE, "another machine has taken over", name_taken=True)
AWAY = WorkflowEngine(SINCE, "the timer of 12:00:00 of pod/n1/default/web/u is due for 5 s", 3)
KEPT = WorkflowEngine(None, "its workflow tasks fail whenever it is handed back", 2, pods_kept=1)
WITHIN = timedelta(seconds=PATIENCE)
TEXTS = {
    "temporal is away": (as_text(AWAY), AWAY),
    "temporal works": (as_text(WorkflowEngine()), WorkflowEngine()),
    "a worker that cannot tell yet": (as_text(None), None),
    "a pod that is kept": (as_text(KEPT), KEPT),
    "another machine has the name": (as_text(TAKEN), TAKEN),
    "a long reason": (as_text(WorkflowEngine(SINCE, "x" * 1000)), WorkflowEngine(SINCE, "x" * LONGEST_WHY)),
    "no json": (b"{\n", None),
    "a list": (b"[]\n", None),
    "a field is missing": (b'{"awaySince": ""}\n', None),
    "a time that is none": (b'{"awaySince": "noon", "why": "", "podsLed": 0}\n', None),
    "a number that is none": (b'{"awaySince": "", "why": "", "podsLed": null}\n', None),
}


@pytest.mark.parametrize(("text", "told"), TEXTS.values(), ids=TEXTS)
async def test_what_is_told_is_read(tmp_path: Path, text: bytes, told: WorkflowEngine | None) -> None:
    """Anything else counts as no answer."""
    async with serving_texts(socket_path(tmp_path, "worker"), {WORKFLOW_ENGINE: lambda: text}):
        assert await workflow_engine(tmp_path, WITHIN) == told


async def test_no_worker_tells_nothing(tmp_path: Path) -> None:
    """Nor one that has no such text."""
    assert await workflow_engine(tmp_path, WITHIN) is None
    async with serving_texts(socket_path(tmp_path, "worker"), {}):
        assert await workflow_engine(tmp_path, WITHIN) is None


async def test_a_process_may_add_a_text(tmp_path: Path) -> None:
    """The worker does, once it knows who leads its pods."""
    config = NodeConfig("node-1", root_dir=tmp_path, healthz_port=0)
    async with open_telemetry(config, "worker", lambda: "") as telemetry:
        telemetry.texts[WORKFLOW_ENGINE] = lambda: as_text(AWAY)
        async with asyncio.timeout(PATIENCE):
            while (told := await workflow_engine(config.state_dir, WITHIN)) is None:  # noqa: ASYNC110 - opened by a task of its own: no event to await
                await asyncio.sleep(0.02)
        assert told == AWAY


async def test_a_restart_of_the_worker_changes_nothing_at_once(tmp_path: Path) -> None:
    """What it told last holds for as long as a process may be absent."""
    now = [0.0]
    config = NodeConfig("node-1", root_dir=tmp_path)
    processes = PeerProcesses(tmp_path, lambda: now[0])
    assert await processes.workflow_engine() is None
    async with serving_texts(socket_path(config.state_dir, "worker"), {WORKFLOW_ENGINE: lambda: as_text(AWAY)}):
        assert await processes.workflow_engine() == AWAY
    now[0] = GRACE_SECONDS - 1
    assert await processes.workflow_engine() == AWAY
    now[0] = GRACE_SECONDS
    assert await processes.workflow_engine() is None


@pytest.mark.parametrize(
    ("engine", "available", "led", "kept"),
    [
        (AWAY, 0, 3, 0),
        (WorkflowEngine(None, "its last 3 workflow tasks failed", 1), 1, 1, 0),
        (KEPT, 1, 2, 1),
        (None, 1, 0, 0),
    ],
    ids=["away", "one-pod-alone", "one-pod-that-is-kept", "not-known-yet"],
)
def test_metrics(engine: WorkflowEngine | None, available: int, led: int, kept: int) -> None:
    """Of the worker alone: another process would always say that all is well."""
    metrics = Metrics("node-1")
    assert b"tempolet_workflow_engine_available" not in metrics.render()
    metrics.show_workflow_engine(lambda: engine)
    said = metrics.render().decode()
    assert f"\ntempolet_workflow_engine_available {available}.0\n" in said
    assert f"\ntempolet_pods_led_without_temporal {led}.0\n" in said
    assert f"\ntempolet_pods_kept_from_temporal {kept}.0\n" in said
