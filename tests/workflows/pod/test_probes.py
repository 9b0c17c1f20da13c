"""Does PodWorkflow apply probe verdicts correctly, without history events while they do not change?"""

import asyncio
from typing import Any

from temporalio.client import WorkflowHandle

from proto.temporal import names
from proto.temporal.pod import ProbeKind
from proto.temporal.signals import ProbeVerdict, RuntimeChanged
from tests.patience import PATIENCE
from tests.workflows.conftest import Node, container, pod_json

TCP = {"tcpSocket": {"port": 80}}


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
