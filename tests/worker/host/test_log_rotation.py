"""Does the loop check every running container's log and report what it cannot rotate?"""

import asyncio
import os
from pathlib import Path
from typing import Any

import grpc
import pytest
import structlog

from activities.clients.cri_error import CriError
from activities.clients.runtime import RuntimeClient
from activities.images.image_pulls import ImagePulls
from activities.machine.cgroup_hierarchies import Hierarchies
from activities.machine.cgroups import Cgroups
from activities.node_services import NodeServices
from activities.settings.activity_settings import ActivitySettings
from proto.pod_snapshot import ContainerSnapshot, PodSnapshot
from worker.host.log_rotation import LogRotator
from worker.settings.log_rotation import ContainerLogs
from worker.telemetry.metrics import Metrics

SETTINGS = ContainerLogs(max_size=10, max_files=3, max_workers=1)


class Runtime(RuntimeClient):
    """Begins a new log for whom it knows."""

    def __init__(self, logs: dict[str, Path]) -> None:
        self.logs = logs
        self.under_way = self.most = 0

    async def reopen_container_log(self, container_id: str) -> None:
        """Do as the runtime does, not at once."""
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        if container_id not in self.logs:
            raise CriError("ReopenContainerLog", grpc.StatusCode.NOT_FOUND, "no such container")
        self.logs[container_id].write_text("")


class OneNode:
    """Pods with a container `main` each, their logs, and the loop that looks at them."""

    def __init__(self, directory: Path) -> None:
        self.settings = ActivitySettings(
            root_dir=directory / "kubelet",
            pod_logs_dir=directory / "logs",
            legacy_container_logs_dir=directory / "containers",
        )
        self.pods: list[PodSnapshot] = []
        self.metrics = Metrics("n")
        self.runtime = Runtime({})
        services = NodeServices(
            settings=self.settings,
            runtime=self.runtime,
            cgroups=Cgroups(hierarchies=Hierarchies(v2=None, v1={})),
            pulls=ImagePulls(),
        )
        self.services = services
        self.rotator = LogRotator(services, SETTINGS, lambda: self.pods, self.metrics)

    def pod(self, name: str, written: str | None, state: str = "CONTAINER_RUNNING") -> Path:
        """Add a pod; None: its log is gone."""
        folder = self.settings.pod_logs_dir / f"default_{name}_u-{name}" / "main"
        folder.mkdir(parents=True)
        log = folder / "0.log"
        if written is not None:
            log.write_text(written)
        self.runtime.logs[f"id-{name}"] = log
        containers = {"main": ContainerSnapshot(f"id-{name}", state, 0)}
        known: dict[str, Any] = {"workflow_id": name, "node": "n", "source": "file", "path": "", "lifecycle": "sync"}
        self.pods.append(PodSnapshot(namespace="default", name=name, uid=f"u-{name}", containers=containers, **known))
        return log

    def counted(self) -> dict[str, float]:
        """Say how many rotations were counted, by outcome."""
        text = self.metrics.render().decode().splitlines()
        lines = [one for one in text if one.startswith("tempolet_container_log_rotations_total{")]
        return {one.split('"')[1]: float(one.split()[-1]) for one in lines}


@pytest.fixture
def one_node(tmp_path: Path) -> OneNode:
    """Return a node."""
    return OneNode(tmp_path)


def lying(log: Path) -> int:
    """Count the files in a log's folder."""
    return len(list(log.parent.iterdir()))


async def test_only_full_logs_of_running_containers_are_rotated(one_node: OneNode) -> None:
    """One that has ended writes no more; one at a time, by containerLogMaxWorkers."""
    full = [one_node.pod(name, "x" * 10) for name in ("a", "b", "c")]
    small, ended = one_node.pod("small", "x" * 9), one_node.pod("ended", "x" * 10, "CONTAINER_EXITED")
    await one_node.rotator.look()
    assert [lying(one) for one in (*full, small, ended)] == [2, 2, 2, 1, 1]
    assert (one_node.counted(), one_node.runtime.most) == ({"rotated": 3.0}, 1)


async def test_a_log_that_is_gone_is_begun_anew(one_node: OneNode) -> None:
    """A worker died between renaming and reopening, or the log was removed by others."""
    log = one_node.pod("a", None)
    await one_node.rotator.look()
    assert lying(log) == 1


async def test_a_failure_is_told_once_and_counted_each_time(one_node: OneNode, tmp_path: Path) -> None:
    """A link is never rotated; a success resets the record."""
    linked, refused = one_node.pod("linked", None), one_node.pod("refused", "x" * 10)
    (tmp_path / "host").write_text("x" * 100)
    linked.symlink_to(tmp_path / "host")
    del one_node.runtime.logs["id-refused"]
    with structlog.testing.capture_logs() as logs:
        await one_node.rotator.look()
        await one_node.rotator.look()
    told = {one["pod"]: one["err"] for one in logs}
    assert told == {
        "default/linked": "0.log is not a regular file and is left alone",
        "default/refused": "ReopenContainerLog: no such container",
    }
    assert len(logs) == 2
    assert one_node.counted() == {"failed": 4.0}
    assert refused.read_text() == "x" * 10


async def test_a_container_that_ended_meanwhile_is_no_failure(one_node: OneNode) -> None:
    """The runtime opens no log for it."""
    one_node.pod("a", "x" * 10)
    full, _ = one_node.rotator._judge()
    one_node.pods.clear()
    del one_node.runtime.logs["id-a"]
    await one_node.rotator._rotate(full[0])
    assert one_node.counted() == {}


async def test_links_of_gone_logs_are_swept(one_node: OneNode, tmp_path: Path) -> None:
    """Those of running containers stay, for a log is away while it is rotated."""
    one_node.pod("x", "")
    (tmp_path / "containers").mkdir()
    for name in ("x", "gone"):
        (tmp_path / "containers" / f"{name}_default_main-{name}.log").symlink_to(one_node.settings.pod_logs_dir / "no")
    one_node.pods[0].containers["main"] = ContainerSnapshot("x", "CONTAINER_RUNNING", 0)
    await one_node.rotator.sweep()
    assert os.listdir(tmp_path / "containers") == ["x_default_main-x.log"]  # noqa: PTH208 - names only


def test_a_look_at_a_node_at_rest_is_one_stat_a_container(one_node: OneNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is done every ten seconds."""
    for number in range(110):
        one_node.pod(f"pod-{number}", "")
    looks: list[object] = []
    stat = os.stat

    def look(*args: Any, **more: Any) -> os.stat_result:
        looks.append(args)
        return stat(*args, **more)

    monkeypatch.setattr(os, "stat", look)
    assert one_node.rotator._judge() == ([], [])
    assert len(looks) == 110
