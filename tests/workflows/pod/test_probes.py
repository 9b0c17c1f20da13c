"""Does PodWorkflow apply probe verdicts correctly, without history events while they do not change?"""

import asyncio
import random
from typing import Any, Final

from temporalio.client import WorkflowHandle

from activities.probes.counting import shortened
from proto.temporal import names
from proto.temporal.pod import ProbeKind
from proto.temporal.signals import ProbeVerdict, RuntimeChanged
from tests.patience import PATIENCE
from tests.workflows.conftest import Node, container, pod_json

TCP = {"tcpSocket": {"port": 80}}
MEGABYTE: Final = 1_000_000
SIGNALS_A_DAY: Final = 320
"""However often a readiness probe changes (tests/activities/execution/test_growing_intervals.py)."""


async def probing(node: Node, times: int = 1) -> str:
    """Wait until the container is probed for the nth time; returns its id."""
    async with asyncio.timeout(PATIENCE):
        while len(asked := node.runtime.named(names.PROBE_CONTAINER)) < times:
            node.runtime.changed.clear()
            await node.runtime.changed.wait()
    return str(asked[-1].container_id)


async def says(
    handle: WorkflowHandle[Any, Any], container_id: str, kind: ProbeKind, *, success: bool, sequence: int = 1
) -> None:
    """Signal a verdict."""
    verdict = ProbeVerdict("web", container_id, kind, success, "HTTP probe failed with statuscode: 500", sequence)
    await handle.signal(names.PROBE_VERDICT, verdict)


async def test_a_pod_is_ready_as_its_probes_say(node: Node) -> None:
    """Started by its startup probe, ready by its readiness probe, and not ready when that fails."""
    pod = pod_json(containers=[container("web", startupProbe=TCP, readinessProbe=TCP)])
    handle = await node.start(pod)
    web = await probing(node)
    await node.until(pod, lambda one: one.phase == "Running" and not one.ready)
    await says(handle, web, ProbeKind.STARTUP, success=True)
    await node.until(pod, lambda one: one.status["containerStatuses"][0]["started"] and not one.ready)
    await says(handle, web, ProbeKind.READINESS, success=True)
    await node.until(pod, lambda one: one.ready)
    await says(handle, web, ProbeKind.READINESS, success=False, sequence=2)
    await node.until(pod, lambda one: not one.ready)
    assert len(node.runtime.named(names.PROBE_CONTAINER)) == 1
    await node.delete(handle)


async def test_a_failed_liveness_probe_restarts_its_container(node: Node) -> None:
    """Stopped with the kubelet's message and restarted, and the new instance is probed."""
    pod = pod_json(containers=[container("web", livenessProbe={**TCP, "terminationGracePeriodSeconds": 7})])
    handle = await node.start(pod)
    await says(handle, await probing(node), ProbeKind.LIVENESS, success=False)
    await node.until(pod, lambda one: one.ready and one.restarts == 1)
    (stop,) = node.runtime.named(names.STOP_CONTAINER)
    assert stop.reason == "Container web failed liveness probe, will be restarted"
    assert stop.grace.total_seconds() == 7
    assert await probing(node, 2) != stop.container_id
    await node.delete(handle)


async def test_a_long_history_is_continued_while_it_is_probed(node: Node) -> None:
    """Probing never ends and delays nothing; the new run continues with the known verdicts."""
    pod = pod_json(containers=[container("web", readinessProbe=TCP)])
    handle = await node.start(pod)
    web = await probing(node)
    await says(handle, web, ProbeKind.READINESS, success=True)
    await node.until(pod, lambda one: one.ready)
    for _ in range(25):
        await asyncio.gather(
            *[handle.signal(names.RUNTIME_CHANGED, RuntimeChanged("event", exited=("nobody",))) for _ in range(80)]
        )
    assert await probing(node, 2) == web
    again = node.runtime.named(names.PROBE_CONTAINER)[1]
    assert again.known[ProbeKind.READINESS].success
    snapshot = await node.until(pod, lambda one: one.ready)
    assert snapshot.restarts == 0
    await node.delete(node.newest(pod))


async def bytes_of(handle: WorkflowHandle[Any, Any]) -> int:
    """Return the size of a run's history."""
    description = await handle.describe()
    return int(description.raw_description.workflow_execution_info.history_size_bytes)


async def test_a_readiness_probe_that_flaps_adds_less_than_a_megabyte_a_day(node: Node) -> None:
    """With the longest output there is, of random characters that cannot be compressed: signals, tasks, search attributes."""
    pod = pod_json(containers=[container("web", readinessProbe=TCP)])
    handle = await node.start(pod)
    web, dice = await probing(node), random.Random(7)
    before, turns = await bytes_of(handle), 20
    for one in range(1, turns + 1):
        output = "".join(chr(dice.randrange(0x20000, 0x2A6D0)) for _ in range(1024))
        message = "" if one % 2 else shortened(output)
        said = ProbeVerdict("web", web, ProbeKind.READINESS, bool(one % 2), message, one)
        await handle.signal(names.PROBE_VERDICT, said)
        await node.until(pod, lambda snapshot, ready=bool(one % 2): snapshot.ready is ready)  # type: ignore[misc]  # the default binds it
    a_turn = (await bytes_of(handle) - before) / turns
    print(f"{a_turn:.0f} bytes a turn, {a_turn * SIGNALS_A_DAY / MEGABYTE:.2f} MB a day")
    assert a_turn * SIGNALS_A_DAY < MEGABYTE
    await node.delete(handle)
