"""Is the database of histories kept below its limit, by deleting what closed first, and never an open run?"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from tests.patience import PATIENCE
from worker.host.temporal import history_limit
from worker.host.temporal.history_limit import HistoryLimit, shorter_retentions
from worker.standalone.temporal_server import TemporalServer
from worker.temporal.database_size import used_bytes
from worker.temporal.temporal_client import TemporalSettings, connect, prepare

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
LIMIT = 64 << 20


def test_each_retention_is_half_of_the_one_before() -> None:
    """Down to an hour."""
    assert list(shorter_retentions(4 * DAY)) == [
        2 * DAY,
        DAY,
        12 * HOUR,
        6 * HOUR,
        3 * HOUR,
        1.5 * HOUR,
        HOUR,
    ]


@workflow.defn(name="Life")
class Life:
    """Stands for a pod's life."""

    @workflow.run
    async def run(self, ends: bool) -> None:
        """End at once, or never."""
        await workflow.wait_condition(lambda: ends)


@workflow.defn(name="Long")
class Long:
    """Stands for a life with a large history."""

    @workflow.run
    async def run(self, noise: str) -> None:
        """End at once."""


@pytest.fixture
async def client(settings: TemporalSettings) -> Client:
    """Connect with a namespace of the test's own: everything that is closed in it may be deleted."""
    settings = replace(settings, namespace="history-limit")
    made = await connect(settings)
    await prepare(made, settings)
    return made


async def lives(client: Client, *names: str) -> None:
    """Run lives that end, one after the other."""
    async with Worker(client, task_queue="lives", workflows=[Life], workflow_runner=UnsandboxedWorkflowRunner()):
        for name in names:
            await client.execute_workflow(Life.run, True, id=name, task_queue="lives")


async def until_listed(client: Client, holds: Callable[[set[str]], bool]) -> set[str]:
    """Wait until visibility, which lags, lists such workflows."""
    async with asyncio.timeout(PATIENCE):
        while not holds(listed := {one.id async for one in client.list_workflows()}):  # noqa: ASYNC110 - Temporal sends no event for it
            await asyncio.sleep(0.05)
    return listed


async def test_the_oldest_closed_runs_go_first_and_open_ones_stay(client: Client, tmp_path: Path) -> None:
    """Each pass deletes those of the longest retention that has any."""
    await client.start_workflow(Life.run, False, id="open", task_queue="lives")
    await lives(client, "first", "second")
    await until_listed(client, lambda ids: {"open", "first", "second"} <= ids)
    await asyncio.sleep(1.1)  # the time of a query has whole seconds
    between = datetime.now(UTC)
    await lives(client, "third")
    await until_listed(client, lambda ids: "third" in ids)
    limit = HistoryLimit(client, tmp_path / "temporal.db", LIMIT, lambda *_: None)
    assert await limit.prune(between) == 0, "whoever closed within the last hour is kept"
    assert await limit.prune(between + 15 * DAY) == 2
    assert await until_listed(client, lambda ids: not {"first", "second"} & ids) == {"open", "third"}
    await client.get_workflow_handle("open").terminate()


async def test_the_real_database_has_less_in_use_afterwards(temporal: TemporalServer) -> None:
    """The pages of deleted histories are free, although the file stays as large."""
    client = await Client.connect(temporal.address, namespace="tempolet")
    async with Worker(client, task_queue="lives", workflows=[Long], workflow_runner=UnsandboxedWorkflowRunner()):
        for one in range(40):
            noise = random.Random(one).randbytes(100_000).hex()
            await client.execute_workflow(Long.run, noise, id=f"long-{one}", task_queue="lives")
    full = used_bytes(temporal.database)
    assert full > 40 * 200_000
    limit = HistoryLimit(client, temporal.database, LIMIT, lambda *_: None)
    await until_listed(client, lambda ids: len([one for one in ids if one.startswith("long-")]) == 40)
    assert await limit.prune(datetime.now(UTC) + 40 * DAY) >= 40
    async with asyncio.timeout(PATIENCE):
        while used_bytes(temporal.database) > full - 40 * 200_000:  # noqa: ASYNC110 - Temporal sends no event for it
            await asyncio.sleep(0.2)


class Database:
    """Plays the file, and counts passes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        self.used, self.passes, self.shown = 0, 0, list[tuple[int, int]]()
        monkeypatch.setattr(history_limit, "used_bytes", lambda _: self.used)
        monkeypatch.setattr(HistoryLimit, "prune", self.prune)
        show = lambda *both: self.shown.append(both)  # noqa: E731 - short
        self.limit = HistoryLimit(None, tmp_path / "temporal.db", LIMIT, show)  # type: ignore[arg-type]  # not called

    async def prune(self, _: datetime) -> int:
        """Count."""
        self.passes += 1
        return 0


@pytest.mark.parametrize(
    ("used", "passes", "alarm"),
    [
        pytest.param(LIMIT // 2, 0, False, id="half-full"),
        pytest.param(int(LIMIT * 0.95), 1, False, id="nearly-full-is-pruned"),
        pytest.param(LIMIT + 1, 1, True, id="over-the-limit-is-told"),
    ],
)
async def test_what_a_size_causes(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    used: int,
    passes: int,
    alarm: bool,
) -> None:
    """It is pruned before the limit is reached; the alarm is for what cannot be pruned."""
    database = Database(monkeypatch, tmp_path)
    database.used = used
    await database.limit.enforce()
    assert (database.passes, database.shown) == (passes, [(used, LIMIT)])
    assert ("exceeds its limit" in capsys.readouterr().out) is alarm


async def test_the_alarm_is_logged_once_and_its_end_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not each minute."""
    database = Database(monkeypatch, tmp_path)
    for database.used in (LIMIT + 1, LIMIT + 2, LIMIT, LIMIT // 2):
        await database.limit.enforce()
    told = capsys.readouterr().out
    assert (told.count("exceeds its limit"), told.count("below its limit again")) == (1, 1)


async def test_a_database_that_cannot_be_read_ends_nothing(tmp_path: Path) -> None:
    """It is being made, or the disk has an error."""
    shown: list[int] = []
    limit = HistoryLimit(None, tmp_path / "none.db", LIMIT, lambda *both: shown.extend(both))  # type: ignore[arg-type]  # not called
    await limit.enforce()
    assert not shown
