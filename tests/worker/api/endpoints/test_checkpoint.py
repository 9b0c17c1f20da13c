"""Can somebody who may make checkpoints fill the node's disk with them?"""

import asyncio
import shutil
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import pytest

from proto.cri.v1 import api_pb2 as cri
from proto.pod_snapshot import ContainerSnapshot
from tests.worker.commands.test_pods_command import WEB
from worker.api.containers import checkpoint_files
from worker.api.containers.named_pod import ContainerRequest, FoundPod
from worker.api.endpoints.checkpoint import FOLDER, _checkpointed
from worker.api.responses.responses import Refused

GIB: Final = 1 << 30

FOUND = FoundPod(replace(WEB, containers={"main": ContainerSnapshot("c0", "CONTAINER_RUNNING", 0)}))
ASKED = ContainerRequest(WEB.namespace, WEB.name, "", "main")


class Disk(NamedTuple):
    """A disk as `shutil.disk_usage` reports it."""

    total: int
    used: int
    free: int


class Runtime:
    """Makes checkpoints of a container with a gibibyte of memory."""

    def __init__(self) -> None:
        self.failure: Exception | None = None
        self.made = 0

    async def container_stats(self, container_id: str) -> cri.ContainerStats:
        """Tell its memory and what it has written."""
        assert container_id == "c0"
        return cri.ContainerStats(
            memory=cri.MemoryUsage(usage_bytes=cri.UInt64Value(value=GIB)),
            writable_layer=cri.FilesystemUsage(used_bytes=cri.UInt64Value(value=GIB)),
        )

    async def checkpoint_container(self, _: str, location: Path, __: int) -> None:
        """Write the file, or a part of it before the failure."""
        self.made += 1
        location.with_name(f"{location.stem}-{self.made}.tar").write_text("state")
        if self.failure:
            await asyncio.to_thread(location.write_text, "half")
            raise self.failure


def node(root_dir: Path, runtime: Runtime) -> Any:
    """Return what the endpoint needs of a node."""
    return SimpleNamespace(config=SimpleNamespace(root_dir=root_dir), runtime=runtime)


@pytest.fixture(autouse=True)
def disk(monkeypatch: pytest.MonkeyPatch) -> list[Disk]:
    """Return the disk of all folders, half empty; a test may put another one in its place."""
    disks = [Disk(100 * GIB, 50 * GIB, 50 * GIB)]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: disks[0])
    return disks


async def test_the_newest_are_kept(tmp_path: Path) -> None:
    """However many are asked for."""
    runtime = Runtime()
    for _ in range(checkpoint_files.KEPT + 5):
        await _checkpointed(node(tmp_path, runtime), FOUND, ASKED, 0)
    left = {int(path.stem.rpartition("-")[2]) for path in (tmp_path / FOLDER).iterdir()}
    assert left == set(range(6, checkpoint_files.KEPT + 6))


@pytest.mark.parametrize(
    ("free", "made"),
    [
        pytest.param(12 * GIB, 1, id="as-much-as-needed-above-the-tenth-that-stays"),
        pytest.param(12 * GIB - 1, 0, id="a-byte-less"),
        pytest.param(0, 0, id="a-full-disk"),
    ],
)
async def test_room_is_asked_for_first(tmp_path: Path, disk: list[Disk], free: int, made: int) -> None:
    """A container's memory and writable layer must fit, and a tenth of the disk stays free."""
    runtime = Runtime()
    disk[0] = Disk(100 * GIB, 100 * GIB - free, free)
    if made:
        await _checkpointed(node(tmp_path, runtime), FOUND, ASKED, 0)
    else:
        with pytest.raises(Refused, match="must stay free") as refused:
            await _checkpointed(node(tmp_path, runtime), FOUND, ASKED, 0)
        assert refused.value.status == HTTPStatus.INSUFFICIENT_STORAGE
    assert runtime.made == made


async def test_a_checkpoint_that_failed_leaves_no_file(tmp_path: Path) -> None:
    """Half a checkpoint is of no use."""
    runtime = Runtime()
    runtime.failure = OSError("no space left")
    with pytest.raises(Refused, match="no space left"):
        await _checkpointed(node(tmp_path, runtime), FOUND, ASKED, 0)
    assert [path.read_text() for path in (tmp_path / FOLDER).iterdir()] == ["state"]
