"""Generates many lives at a time on Temporal development servers of its own, and returns their runs.

There are two servers: the second one suggests continue-as-new after few events, instead of four thousand.
"""

import asyncio
import contextlib
import sys
import tempfile
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from proto.temporal import names
from tests.conftest import development_server
from tests.replay.lives.archive import RecordedRun, clean
from tests.replay.lives.drawn_life import DrawnLife
from tests.replay.lives.fake_runtime import FakeRuntime
from tests.replay.lives.happenings import lead
from tests.replay.lives.node_life import FakeNodes, NodeLife
from tests.replay.lives.replaying import quiet_runtime
from worker.temporal.codec import plain_data_converter
from worker.temporal.temporal_client import TemporalSettings, prepare
from workflows.node import NodeWorkflow
from workflows.pod import PodWorkflow

NODE: Final = "recorded"
LED_AT_ONCE: Final = 30
SHORT: Final = 4
"""The runs of every fourth seed continue as new after few events."""
FEW_EVENTS: Final = "limit.historyCount.suggestContinueAsNew=40"


def record(kind: str, behaviour: int, seeds: Iterable[int], patience: float = 1) -> list[RecordedRun]:
    """Generate the lives of these seeds and return all their runs; with `patience` pods wait so many times longer."""
    return asyncio.run(_record(kind, behaviour, list(seeds), patience))


async def _record(kind: str, behaviour: int, seeds: list[int], patience: float) -> list[RecordedRun]:
    groups = (
        ([seed for seed in seeds if seed % SHORT], ()),
        ([seed for seed in seeds if not seed % SHORT], (FEW_EVENTS,)),
    )
    led = await asyncio.gather(
        *(_led(kind, behaviour, group, settings, patience) for group, settings in groups if group)
    )
    return sorted((run for runs in led for run in runs), key=lambda run: (run.seed, run.number))


async def _led(
    kind: str, behaviour: int, seeds: list[int], settings: tuple[str, ...], patience: float
) -> list[RecordedRun]:
    """Generate these lives on a server with these settings."""
    with tempfile.TemporaryDirectory() as folder, development_server(Path(folder), *settings) as address:
        async with _leading(kind, behaviour, address, patience) as lead_one:
            return await _lead_all(seeds, lead_one)


@contextlib.asynccontextmanager
async def _leading(
    kind: str, behaviour: int, address: str, patience: float
) -> AsyncIterator[Callable[[int], Awaitable[list[RecordedRun]]]]:
    """Run a worker for the lives."""
    client = await Client.connect(
        address,
        namespace=names.NAMESPACE,
        data_converter=plain_data_converter(),
        identity="recorded",
        runtime=quiet_runtime(),  # failures are drawn
    )
    await prepare(client, TemporalSettings(Path()))
    runtime, nodes = FakeRuntime(), FakeNodes()

    async def pod_life(seed: int) -> list[RecordedRun]:
        life = DrawnLife(seed, behaviour, client, NODE, runtime, patience=patience)
        ended = await lead(life)
        return _kept(life, await life.runs(), ended=ended, defects=life.fake.defects)

    async def node_life(seed: int) -> list[RecordedRun]:
        life = NodeLife(seed, behaviour, client, NODE, nodes)
        await life.lead()
        return _kept(life, await life.runs(), ended=True, defects=[])

    async with Worker(
        client,
        task_queue=names.node_task_queue(NODE),
        workflows=[NodeWorkflow, PodWorkflow],
        activities=[*runtime.activities(), *nodes.activities()],
        workflow_runner=UnsandboxedWorkflowRunner(),  # as the worker does
        build_id="recorded",
        identity="recorded",
        max_concurrent_workflow_tasks=8,
        max_concurrent_activities=5000,
        max_heartbeat_throttle_interval=timedelta(milliseconds=300),
        default_heartbeat_throttle_interval=timedelta(milliseconds=300),
    ):
        yield pod_life if kind == "pod" else node_life


def _kept(life: Any, histories: list[Any], *, ended: bool, defects: list[str]) -> list[RecordedRun]:
    if not ended or defects:
        print(f"seed {life.seed}: {'ended' if ended else 'TERMINATED'} {sorted(set(defects))}", file=sys.stderr)
    for history in histories:
        for event in history.events:
            clean(event)
    return [RecordedRun(life.seed, number, history) for number, history in enumerate(histories, start=1)]


async def _lead_all(seeds: list[int], lead_one: Callable[[int], Awaitable[list[RecordedRun]]]) -> list[RecordedRun]:
    room = asyncio.Semaphore(LED_AT_ONCE)

    async def in_turn(seed: int) -> list[RecordedRun]:
        async with room:
            try:
                return await lead_one(seed)
            except Exception:  # noqa: BLE001 - keep the other lives
                print(f"seed {seed} is left out:\n{traceback.format_exc(limit=-3)}", file=sys.stderr)
                return []

    return [run for runs in await asyncio.gather(*(in_turn(seed) for seed in seeds)) for run in runs]
