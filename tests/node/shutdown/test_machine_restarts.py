"""Does a restart of the machine end the back-off of a crash-looping container on real containerd, as with a kubelet?"""

from pathlib import Path

from temporalio.api.history.v1 import HistoryEvent

from proto.pod_snapshot import PodSnapshot
from proto.temporal.names import START_CONTAINER
from tests.node.operating import history, tempolet
from tests.node.restarted_machine import restart_machine
from tests.node.tempolet_node import TempoletNode, pod_manifest, wait

NODE_KEYS: dict[str, object] = {}
"""Empty: the kubelet's back-off applies."""
LONG_BACKOFF = 5
"""Restarts after which a container waits 160 s: longer than this test waits for anything."""


def test_a_crash_loop_waits_no_longer(node: TempoletNode, tmp_path: Path) -> None:
    """It starts at once in a new sandbox, its restarts are counted on, and no timer had to fire for it."""
    volumes = [{"name": "shared", "hostPath": {"path": str(tmp_path)}}]
    manifest = pod_manifest("loops", "test -e /shared/stay && exec sleep 3600; exit 3", volumes=volumes)
    manifest["spec"]["containers"][0]["volumeMounts"] = [{"name": "shared", "mountPath": "/shared"}]
    node.apply(manifest)
    looping = skip_until_long(node)
    (tmp_path / "stay").touch()
    restart_machine(node, looping)
    running = node.until_running("loops")
    assert running.sandbox_id != looping.sandbox_id
    assert running.restarts == LONG_BACKOFF + 1
    assert timers_fired_before_start(node, running) == 0
    told = history(node, running)
    assert "the machine was restarted" in told
    assert "restart 6 (" in told
    assert "in a new sandbox after exit 3 Error, without back-off" in told
    node.take_away("loops")


def skip_until_long(node: TempoletNode) -> PodSnapshot:
    """Skip one back-off after the other until the container waits for long."""

    def waits(least: int) -> PodSnapshot:
        return node.until_pod("loops", lambda one: one.restarts >= least and one.reason == "CrashLoopBackOff")

    while (looping := waits(1)).restarts < LONG_BACKOFF:
        tempolet(node, "skip-backoff", f"{looping.namespace}/{looping.name}")  # refused if it is over by then
        waits(looping.restarts + 1)
    assert "back-off 2m40s restarting" in looping.message
    return looping


def timers_fired_before_start(node: TempoletNode, pod: PodSnapshot) -> int:
    """Count the timers that fired between the last two starts of a container."""

    async def events() -> list[HistoryEvent]:
        return list((await (await node.workflow(pod)).fetch_history()).events)

    found = wait(events())
    names = [one.activity_task_scheduled_event_attributes.activity_type.name for one in found]
    before, last = [number for number, name in enumerate(names) if name == START_CONTAINER][-2:]
    return sum(one.HasField("timer_fired_event_attributes") for one in found[before:last])
