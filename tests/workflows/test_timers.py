"""Does each wait of a pod have one timer, started once, whatever else arrives?"""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from temporalio.client import WorkflowHandle

from proto.pod_snapshot import PodSnapshot
from proto.temporal import names
from proto.temporal.operator import BackoffsSkipped, SkipBackoff
from proto.temporal.pod import ContainerState, NodeSettings, PodJson, PodOutcome
from proto.temporal.signals import RuntimeChanged
from tests.workflows.conftest import Node, container, pod_json
from workflows.decide.versions import TIMER_PER_WAIT

NAMES = ("a", "b", "c", "d")
RE_READS = 10
SLOW = NodeSettings(host_ips=("192.0.2.1",))
"""Without the short back-offs of the other tests."""


@pytest.fixture(autouse=True)
def _back_offs_that_outlast_a_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workflows.decide.containers.backoff.INITIAL", timedelta(minutes=5))


def has_run(name: str, attempt: int, snapshot: PodSnapshot) -> bool:
    """Return whether a container runs its nth attempt."""
    known = snapshot.containers.get(name)
    return known is not None and (known.state, known.attempt) == (ContainerState.RUNNING, attempt)


async def waiting_pod(node: Node) -> tuple[PodJson, WorkflowHandle[Any, PodOutcome]]:
    """Start a pod with four containers, each of which has failed twice and is in back-off."""
    pod = pod_json(containers=[container(name) for name in NAMES])
    handle = await node.start(pod, SLOW)
    for attempt in (0, 1):
        for name in NAMES:
            await node.until(pod, partial(has_run, name, attempt))
            await node.exits(handle, name, 1)
    await node.until(pod, lambda one: all(known.state == ContainerState.EXITED for known in one.containers.values()))
    for number in range(1, RE_READS + 1):  # each is a re-read that finds nothing
        before = len(node.runtime.named(names.READ_POD_RUNTIME))
        await handle.signal(names.RUNTIME_CHANGED, RuntimeChanged("resync", number))
        await node.until(pod, lambda _, before=before: len(node.runtime.named(names.READ_POD_RUNTIME)) > before)  # type: ignore[misc]
    return pod, handle


async def timers_of(handle: WorkflowHandle[Any, PodOutcome]) -> tuple[int, int]:
    """Count the timers of back-offs, and how many were cancelled; the first restart waits for milliseconds at most."""
    events = [event async for event in handle.fetch_history_events()]
    started = [
        event.timer_started_event_attributes for event in events if event.HasField("timer_started_event_attributes")
    ]
    long = {one.timer_id for one in started if one.start_to_fire_timeout.ToTimedelta() > timedelta(seconds=1)}
    cancelled = {event.timer_canceled_event_attributes.timer_id for event in events}
    return len(long), len(long & cancelled)


async def test_a_wait_is_one_timer_whatever_arrives(node: Node) -> None:
    """Four waits in parallel, during ten re-reads."""
    _, handle = await waiting_pod(node)
    assert await timers_of(handle) == (4, 0)
    await node.delete(handle)
    assert await timers_of(handle) == (4, 4)


async def test_a_wait_that_is_over_sooner_has_its_timer_cancelled(node: Node) -> None:
    """Only that timer is cancelled."""
    pod, handle = await waiting_pod(node)
    skip = SkipBackoff("root@node-1", "b")
    await handle.execute_update(names.SKIP_BACKOFF, skip, result_type=BackoffsSkipped)
    await node.until(pod, partial(has_run, "b", 2))
    assert await timers_of(handle) == (4, 1)
    await node.delete(handle)


async def test_before_that_there_was_one_timer_started_anew_each_time(node: Node) -> None:
    """The reason for behaviour 3: of the four waits only the nearest had a timer."""
    node.behaviour = TIMER_PER_WAIT - 1
    _, handle = await waiting_pod(node)
    started, cancelled = await timers_of(handle)
    assert started >= RE_READS
    assert cancelled == started - 1
    await node.delete(handle)
