"""Does a runtime that keeps images and writable layers on two file systems have each judged and emptied by itself?

containerd has one for both; CRI-O can split them. The runtime here is a CRI server of the test's own, the file systems are real.
"""

import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from activities.clients.runtime import RuntimeClient
from activities.clients.start_limit import StartLimit
from activities.files import mounts
from proto.cri.labels import POD_UID
from proto.cri.v1 import api_pb2 as cri
from proto.cri.v1 import api_pb2_grpc
from proto.node_pressure import read_node_pressure
from proto.temporal.eviction.thresholds import Amount, Signal, Threshold
from proto.temporal.node import ImageAge
from proto.temporal.pod import Lifecycle
from tests.worker.host.pressure.pressed_node import PressedNode

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")

EVERYTHING = Amount(share=1.0)
"""Never available: some of it is always used."""
IMAGE = "sha256:unused"
CONTAINERS, IMAGES = ["over"], [IMAGE]


@dataclass
class SplitRuntime(api_pb2_grpc.RuntimeServiceServicer, api_pb2_grpc.ImageServiceServicer):  # type: ignore[misc]  # generated without types
    """A dead container and an unused image; None: it does not tell where layers are, as an old runtime."""

    images: Path
    layers: Path | None
    removed: list[str] = field(default_factory=list)

    async def ImageFsInfo(self, _: Any, __: Any) -> cri.ImageFsInfoResponse:  # noqa: N802 - CRI's name
        """Name both places."""
        layers = [_filesystem(self.layers)] if self.layers else []
        return cri.ImageFsInfoResponse(image_filesystems=[_filesystem(self.images)], container_filesystems=layers)

    async def ListContainers(self, _: Any, __: Any) -> cri.ListContainersResponse:  # noqa: N802 - CRI's name
        """List the dead one."""
        named = cri.ContainerMetadata(name="over")
        dead = cri.Container(id="over", metadata=named, state=cri.CONTAINER_EXITED, labels={POD_UID: "down"})
        return cri.ListContainersResponse(containers=[] if "over" in self.removed else [dead])

    async def ContainerStatus(self, _: Any, __: Any) -> cri.ContainerStatusResponse:  # noqa: N802 - CRI's name
        """Mount no image."""
        return cri.ContainerStatusResponse(status=cri.ContainerStatus())

    async def RemoveContainer(self, asked: Any, _: Any) -> cri.RemoveContainerResponse:  # noqa: N802 - CRI's name
        """Note it."""
        self.removed.append(asked.container_id)
        return cri.RemoveContainerResponse()

    async def ListImages(self, _: Any, __: Any) -> cri.ListImagesResponse:  # noqa: N802 - CRI's name
        """List the unused one."""
        return cri.ListImagesResponse(images=[cri.Image(id=IMAGE)])

    async def ImageStatus(self, _: Any, __: Any) -> cri.ImageStatusResponse:  # noqa: N802 - CRI's name
        """Know it."""
        return cri.ImageStatusResponse(image=cri.Image(id=IMAGE))

    async def RemoveImage(self, asked: Any, _: Any) -> cri.RemoveImageResponse:  # noqa: N802 - CRI's name
        """Note it."""
        self.removed.append(asked.image.image)
        return cri.RemoveImageResponse()


def _filesystem(place: Path) -> cri.FilesystemUsage:
    return cri.FilesystemUsage(fs_id=cri.FilesystemIdentifier(mountpoint=str(place)))


@pytest.fixture
def images(tmp_path: Path) -> Iterator[Path]:
    """Give images a file system of their own, of which something is used."""
    folder = tmp_path / "images"
    folder.mkdir()
    mounts.mount("tmpfs", folder, "tmpfs")
    (folder / "layer").write_text("x" * 4096)
    yield folder
    mounts.unmount(folder)


@pytest.mark.parametrize(
    ("layers", "signal", "removed"),
    [
        pytest.param("kubelet", Signal.NODE_FS, CONTAINERS, id="split-nodefs"),
        pytest.param("kubelet", Signal.IMAGE_FS, IMAGES, id="split-imagefs"),
        pytest.param("images", Signal.NODE_FS, [], id="layers-beside-images-nodefs"),
        pytest.param("images", Signal.IMAGE_FS, [*CONTAINERS, *IMAGES], id="layers-beside-images-imagefs"),
        pytest.param(None, Signal.IMAGE_FS, [*CONTAINERS, *IMAGES], id="where-layers-are-is-not-told"),
    ],
)
async def test_what_goes_first(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    images: Path,
    layers: str | None,
    signal: Signal,
    removed: list[str],
) -> None:
    """The kind that lies on the starved file system; then a pod goes, too, because that gave no room."""
    runtime = SplitRuntime(images, tmp_path / layers if layers else None)
    (tmp_path / "kubelet").mkdir()
    async with _served(runtime) as client:
        node = PressedNode(tmp_path / "kubelet", monkeypatch, Threshold(signal, EVERYTHING), runtime=client)
        node.services.image_ages.known = {IMAGE: ImageAge(IMAGE, datetime.now(UTC) - timedelta(hours=1))}
        node.add("down", 1, lifecycle=Lifecycle.TERMINATED)
        node.add("up", 1)
        assert await node.evictions.round() is not None
    assert runtime.removed == removed
    assert read_node_pressure(node.root_dir) == {"DiskPressure"}
    assert node.asked() == ["pod/up"]


@asynccontextmanager
async def _served(runtime: SplitRuntime) -> AsyncIterator[RuntimeClient]:
    """Serve it on a socket, and connect."""
    server = grpc.aio.server()
    api_pb2_grpc.add_RuntimeServiceServicer_to_server(runtime, server)
    api_pb2_grpc.add_ImageServiceServicer_to_server(runtime, server)
    with tempfile.TemporaryDirectory(prefix="tpl.") as folder:  # a socket's path is short
        server.add_insecure_port(f"unix://{folder}/cri")
        await server.start()
        client = RuntimeClient(f"{folder}/cri", StartLimit(1))
        try:
            yield client
        finally:
            await client.close()
            await server.stop(grace=None)
