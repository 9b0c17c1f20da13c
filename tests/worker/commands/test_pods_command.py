"""Does `tempolet pods` show what an operator needs, whichever service is down?"""

import json
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from proto.interventions import Intervention
from proto.node_runtime import NodeRuntime, write_node_runtime
from proto.pod_snapshot import ContainerSnapshot, PodSnapshot, pod_path, snapshot_path
from proto.refusals import Refusal, write_refusals
from worker.cli import run
from worker.commands.access.exits import Exit
from worker.commands.access.node_view import NodeView, notes, short_age
from worker.commands.show.pods import row
from worker.daemon.node_lock import hold_node_lock
from worker.telemetry.workflow_engine import WorkflowEngine

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
READY: dict[str, Any] = {"containerStatuses": [{"name": "web", "ready": True}], "podIPs": [{"ip": "10.88.0.5"}]}
WEB = PodSnapshot(
    workflow_id="pod/n/default/web/u-1",
    node="n",
    namespace="default",
    name="web",
    uid="u-1",
    source="file",
    path="/m/web.yaml",
    lifecycle="sync",
    phase="Running",
    ready=True,
    started_at="2026-11-21T11:57:00Z",
    containers={"web": ContainerSnapshot("c1", "CONTAINER_RUNNING")},
    status=READY,
)


def keep(root_dir: Path, pod: PodSnapshot) -> None:
    """Write a snapshot where the worker does."""
    path = snapshot_path(root_dir, pod.uid)
    path.parent.mkdir(parents=True)
    path.write_bytes(pod.to_json())


@pytest.mark.parametrize(
    ("changes", "cells"),
    [
        pytest.param({}, ("default", "web", "1/1", "Running", "0", "3m", ""), id="running"),
        pytest.param(
            {
                "status": {"containerStatuses": [{"ready": False}, {"ready": True}]},
                "restarts": 4,
                "reason": "CrashLoopBackOff",
                "message": "back-off 40s",
            },
            ("default", "web", "1/2", "Running", "4", "3m", "CrashLoopBackOff: back-off 40s"),
            id="crash-loop",
        ),
        pytest.param(
            {
                "status": READY
                | {
                    "ephemeralContainerStatuses": [
                        {"name": "debugger-b2c4d", "state": {"running": {}}},
                        {"name": "tools", "state": {"waiting": {"reason": "ErrImagePull"}}},
                        {"name": "done", "state": {"terminated": {"exitCode": 1}}},
                    ]
                },
                "reason": "Error",
            },
            (
                *("default", "web", "1/1", "Running", "0", "3m"),
                "Error; debugger-b2c4d is debugging it; tools is about to debug it (ErrImagePull)",
            ),
            id="looked-into",
        ),
        pytest.param({"deleting": True}, ("default", "web", "1/1", "Terminating", "0", "3m", ""), id="going"),
        pytest.param(
            {"status": {}, "phase": "Pending", "reason": "ErrImagePull"},
            ("default", "web", "0/1", "Pending", "0", "3m", "ErrImagePull"),
            id="without-statuses-yet",
        ),
        pytest.param(
            {
                "status": {"containerStatuses": []},
                "containers": {},
                "pod": {"spec": {"containers": [{"name": "web"}, {"name": "log"}]}},
                "phase": "Failed",
                "reason": "OutOfcpu",
            },
            ("default", "web", "0/2", "Failed", "0", "3m", "OutOfcpu"),
            id="rejected",
        ),
        pytest.param({"started_at": ""}, ("default", "web", "1/1", "Running", "0", "", ""), id="not-started"),
    ],
)
def test_a_pod_in_a_row(changes: dict[str, Any], cells: tuple[str, ...]) -> None:
    """Namespace, name, ready, phase, restarts, age, reason with message."""
    assert row(replace(WEB, **changes), NOW)[:7] == cells


def test_the_wide_row_says_where_it_is() -> None:
    """Address, UID and manifest."""
    assert row(WEB, NOW)[7:] == ("10.88.0.5", "u-1", "/m/web.yaml")


@pytest.mark.parametrize(
    ("age", "said"),
    [
        pytest.param(timedelta(seconds=-3), "0s", id="a-clock-that-went-back"),
        pytest.param(timedelta(seconds=119), "119s", id="seconds"),
        pytest.param(timedelta(seconds=125), "2m5s", id="minutes-and-seconds"),
        pytest.param(timedelta(minutes=59), "59m", id="minutes"),
        pytest.param(timedelta(minutes=200), "3h20m", id="hours-and-minutes"),
        pytest.param(timedelta(hours=30), "30h", id="hours"),
        pytest.param(timedelta(hours=75), "3d3h", id="days-and-hours"),
        pytest.param(timedelta(days=400), "400d", id="days"),
    ],
)
def test_ages_as_kubectl_says_them(age: timedelta, said: str) -> None:
    """Short, and more precise for young pods."""
    assert short_age(age) == said


@pytest.mark.parametrize(
    ("view", "said"),
    [
        pytest.param(NodeView(), [], id="all-is-well"),
        pytest.param(
            NodeView(refusals=[Refusal("/m/bad.yaml", "InvalidManifest", "spec.containers: required", "t")]),
            ["refused /m/bad.yaml: InvalidManifest: spec.containers: required"],
            id="a-refused-manifest",
        ),
        pytest.param(
            NodeView(refusals=[Refusal("/m/web.yaml", "InvalidManifest", "x", "t", "default/web", pod_kept=True)]),
            ["refused /m/web.yaml: InvalidManifest: x (default/web continues with the last valid version)"],
            id="a-bad-edit",
        ),
        pytest.param(
            NodeView(runtime=NodeRuntime(ready=False, endpoint="unix:///r", reason="Away", message="m", since="t")),
            ["the container runtime at unix:///r is not ready since t: Away: m"],
            id="the-runtime-is-away",
        ),
        pytest.param(
            NodeView(runtime=NodeRuntime(ready=True, network_ready=False, endpoint="unix:///r", reason="NoCNI")),
            ["the runtime's network at unix:///r is not ready: NoCNI"],
            id="no-network",
        ),
        pytest.param(
            NodeView(absent=("worker",)),
            ["no worker runs on this node: this is the last known state"],
            id="no-worker",
        ),
        pytest.param(
            NodeView(
                interventions=[Intervention("pod/n/default/web/u", "WorkflowPaused", "it was paused", "default/web")]
            ),
            ["default/web: WorkflowPaused: it was paused"],
            id="a-paused-pod",
        ),
        pytest.param(
            NodeView(interventions=[Intervention("copied", "ForeignWorkflow", "nobody's")]),
            ["copied: ForeignWorkflow: nobody's"],
            id="a-foreign-workflow",
        ),
        pytest.param(
            NodeView(troubles=("worker: log rotation: OSError: no space left",)),
            ["a part of this node fails and is tried again: worker: log rotation: OSError: no space left"],
            id="a-loop-that-fails",
        ),
        pytest.param(NodeView(workflow_engine=WorkflowEngine()), [], id="temporal-works"),
        pytest.param(
            NodeView(refusals=[Refusal("/m/gpu.yaml", "AdmissionPending", "why", "t", "default/gpu-n", waits=True)]),
            ["waiting default/gpu-n: AdmissionPending: why"],
            id="a-pod-that-waits-for-its-admission",
        ),
        pytest.param(
            NodeView(pressure=frozenset({"MemoryPressure", "DiskPressure"})),
            ["this node shows DiskPressure, MemoryPressure: new pods may be refused, and running ones evicted"],
            id="under-pressure",
        ),
        pytest.param(
            NodeView(workflow_engine=WorkflowEngine(NOW, "the timer of 11:59:55 is due", 2)),
            [
                "Temporal is away since 2026-11-21T12:00:00Z: the timer of 11:59:55 is due; this node leads 2 pods itself"
            ],
            id="temporal-is-away",
        ),
        pytest.param(
            NodeView(workflow_engine=WorkflowEngine(NOW, "stop it there", name_taken=True)),
            ["since 2026-11-21T12:00:00Z this machine does nothing about its pods: stop it there"],
            id="another-machine-has-the-name",
        ),
        pytest.param(
            NodeView(workflow_engine=WorkflowEngine(None, "its last 3 workflow tasks failed", 1)),
            ["this node leads 1 pod itself: its last 3 workflow tasks failed"],
            id="one-workflow-does-not-work",
        ),
    ],
)
def test_what_stands_below_the_table(view: NodeView, said: list[str]) -> None:
    """The reasons why the table may be incomplete or out of date."""
    assert list(notes(view)) == said


def test_the_table_of_a_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pods, refusals and who is away, read from the node's caches alone."""
    keep(tmp_path, WEB)
    keep(tmp_path, replace(WEB, uid="u-2", name="api", reason="Error", message="x" * 300, status={}, containers={}))
    pod_path(tmp_path, "u-2").write_text('{"spec": {"containers": [{"name": "web"}, {"name": "log"}]}}')
    write_refusals(tmp_path, [Refusal("/m/bad.yaml", "InvalidManifest", "not YAML", "t")])
    write_node_runtime(tmp_path, NodeRuntime(ready=True, endpoint="unix:///r"))
    with hold_node_lock(tmp_path, "worker"):
        assert run(["pods", "--root-dir", str(tmp_path)]) == Exit.DONE
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["NAMESPACE", "NAME", "READY", "PHASE", "RESTARTS", "AGE", "REASON"]
    assert [line.split()[1:3] for line in lines[1:3]] == [["api", "0/2"], ["web", "1/1"]]
    assert "x" * 300 in lines[1]
    assert lines[3:] == [
        "refused /m/bad.yaml: InvalidManifest: not YAML",
        "no poller runs on this node: this is the last known state",
    ]


def test_where_it_looked_is_said_when_nobody_runs_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The node may have another run folder."""
    assert run(["pods", "--root-dir", str(tmp_path)]) == Exit.DONE
    said = capsys.readouterr().out
    assert f"looked in {tmp_path}: set TEMPOLET_RUN_DIR" in said


def test_the_same_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For scripts: everything, refusals and runtime too, without what a pod runs with."""
    keep(tmp_path, WEB)
    pod_path(tmp_path, WEB.uid).write_text('{"spec": {"containers": [{"name": "web", "args": ["secret"]}]}}')
    assert run(["pods", "--root-dir", str(tmp_path), "-o", "json"]) == Exit.DONE
    found = json.loads(capsys.readouterr().out)
    assert [(pod["name"], pod["pod"]) for pod in found["pods"]] == [("web", {})]
    assert (found["refused"], found["runtime"], found["absent"]) == ([], None, ["worker", "poller"])
    assert found["workflow_engine"] is None


def test_markup_in_a_message_is_shown_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A container's words must not colour the operator's terminal."""
    keep(tmp_path, replace(WEB, reason="Error", message="[red]boom[/red]\x1b[31m\n"))
    run(["pods", "--root-dir", str(tmp_path)])
    said = capsys.readouterr().out
    assert r"[red]boom[/red]\x1b[31m\n" in said
    assert "\x1b" not in said


def test_watch_shows_a_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is printed without a change; a new pod is printed; control-c ends it."""
    looks = iter([None, lambda: keep(tmp_path, WEB), None])

    def sleep(_: float) -> None:
        try:
            change = next(looks)
        except StopIteration:
            raise KeyboardInterrupt from None
        if change is not None:
            change()

    monkeypatch.setattr(time, "sleep", sleep)
    assert run(["pods", "--watch", "--root-dir", str(tmp_path)]) == Exit.INTERRUPTED
    said = capsys.readouterr().out
    assert (said.count("no pods on this node"), said.count("default")) == (1, 1)
