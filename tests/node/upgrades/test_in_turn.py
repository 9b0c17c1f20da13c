"""Do pods in every phase of their lives go on when the release before and this one work for their node in turn?"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from temporalio.api.enums.v1 import WorkflowTaskFailedCause as Cause

from proto.pod_snapshot import PodSnapshot
from proto.temporal import names
from tests.node.conftest import QUICK
from tests.node.containerd_view import container_pid, containers_of
from tests.node.operating import tempolet
from tests.node.tempolet_node import BUSYBOX, RELEASE, TempoletNode, pod_manifest, tempolet_node, wait
from worker.behaviours.runs import Run, runs_of
from worker.standalone.containerd import Containerd
from worker.standalone.temporal_server import TemporalServer
from workflows.decide.versions import CURRENT, CURRENT_NODE

PREVIOUS: Final = "tests.node.upgrades.previous_release"
TURNS: Final = (RELEASE, PREVIOUS, RELEASE)
HARMLESS: Final = {Cause.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND}
"""Something arrived while the workflow ended: Temporal asks again."""
QUIET: Final = ("pending", "init", "running", "terminating", "completed")
"""Pods whose containers stay as they are; one more is in a crash loop."""


@pytest.fixture
def node(tmp_path: Path, containerd: Containerd, temporal: TemporalServer) -> Iterator[TempoletNode]:
    """Run a node that the release before has set up, so that it is committed to its behaviours."""
    with tempolet_node(tmp_path, containerd, temporal, keys=QUICK, release=PREVIOUS) as made:
        try:
            yield made
        finally:
            for pod in made.snapshots():  # one that would terminate for an hour
                if pod.deleting:
                    tempolet(made, "stop", f"{pod.namespace}/{pod.name}", "--force")


def begin(node: TempoletNode) -> dict[str, PodSnapshot]:
    """Bring a pod into each phase."""
    absent = {"name": "main", "image": "example.invalid/none:1", "imagePullPolicy": "Never"}
    waits = [{"name": "first", "image": BUSYBOX, "command": ["sleep", "3600"]}]
    node.apply(pod_manifest("pending", containers=[absent]))
    node.apply(pod_manifest("init", initContainers=waits))
    node.apply(pod_manifest("running"))
    node.apply(pod_manifest("crashes", "exit 1"))
    node.apply(pod_manifest("completed", "exit 0", restartPolicy="Never"))
    node.apply(
        pod_manifest("terminating", "trap '' TERM; while :; do sleep 1; done", terminationGracePeriodSeconds=3000)
    )
    node.until_running("terminating")
    node.remove("terminating")
    return {
        "pending": node.until_pod("pending", lambda one: one.reason == "ErrImageNeverPull"),
        "init": node.until_pod("init", lambda one: _states(one, "initContainerStatuses") == ["running"]),
        "running": node.until_running("running"),
        "crashes": node.until_pod("crashes", lambda one: one.restarts >= 2),
        "completed": node.until_pod("completed", lambda one: one.phase == "Succeeded"),
        "terminating": node.until_pod("terminating", lambda one: one.deleting),
    }


def _states(pod: PodSnapshot, field: str) -> list[str]:
    return [next(iter(one.get("state") or {}), "") for one in pod.status.get(field) or ()]


def containers(node: TempoletNode, pod: PodSnapshot) -> set[tuple[str, int]]:
    """Return each container of a pod with its pid."""
    return {(one.id, container_pid(node.containerd, one.id)) for one in containers_of(node.containerd, pod.uid)}


def switch(node: TempoletNode, release: str) -> None:
    """Let another release's processes take the place of those that run, worker first, as an upgrade does."""
    started = node.log("worker").count("worker started")
    node.release = release
    for role in node.roles:
        node.stop(role)
        node.start(role)
    node.until(lambda: node.log("worker").count("worker started") > started, "the worker started")


def failures(node: TempoletNode, pod: PodSnapshot) -> list[Any]:
    """Return why workflow tasks of a pod's newest run have failed."""
    events = wait(wait(node.workflow(pod)).fetch_history()).events
    found = [one for one in events if one.HasField("workflow_task_failed_event_attributes")]
    causes = [one.workflow_task_failed_event_attributes.cause for one in found]
    return [one for one in causes if one not in HARMLESS]


async def numbers(node: TempoletNode) -> set[tuple[str, int | None]]:
    """Return the behaviours that the open runs follow."""
    found: list[Run] = [one async for one in runs_of(await node.client(), node.name, "CloseTime IS NULL")]
    return {(one.kind, one.behaviour) for one in found}


def test_lives_go_on_whichever_release_works(node: TempoletNode) -> None:
    """No container restarts for a switch, no workflow task fails, no run changes its behaviour before the commitment; each pod can be deleted."""
    pods = begin(node)
    before = {name: containers(node, pods[name]) for name in QUIET}
    for release in TURNS:
        restarts = node.until_pod("crashes", lambda one: one.restarts).restarts
        switch(node, release)
        for name, pod in pods.items():
            status = wait(wait(node.workflow(pod)).query(names.POD_STATUS))
            assert status["phase"] == pod.phase, name
            assert failures(node, pod) == [], name
        node.until_pod("crashes", partial(_has_restarted, restarts))
        assert {name: containers(node, pods[name]) for name in QUIET} == before
        assert wait(numbers(node)) == {("pods", CURRENT - 1), ("node", CURRENT_NODE - 1)}
    terminating = pods["terminating"]
    assert tempolet(node, "stop", f"{terminating.namespace}/{terminating.name}", "--force")[0] == 0
    node.until_gone("terminating")
    assert tempolet(node, "behaviour", "--commit")[0] == 0
    switch(node, RELEASE)
    newest = {("pods", CURRENT), ("node", CURRENT_NODE)}
    node.until(
        lambda: wait(numbers(node)) == newest, "all runs are raised, long before the second look (syncFrequency)"
    )
    quiet = [name for name in QUIET if name != "terminating"]
    assert {name: containers(node, pods[name]) for name in quiet} == {name: before[name] for name in quiet}
    node.take_away("pending", "init", "running", "crashes", "completed")


def _has_restarted(restarts: int, pod: PodSnapshot) -> bool:
    return pod.restarts > restarts
