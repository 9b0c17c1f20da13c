"""A runtime that lists fixed containers in CRI messages, and counts calls."""

from dataclasses import dataclass, field

import grpc

from activities.clients.cri_error import CriError
from proto.cri.v1 import api_pb2 as cri
from tests.worker.stats import measured_node as node

BUSYBOX_ID = "sha256:b" + "0" * 63


@dataclass
class ListedRuntime:
    """The pod of `measured_node`; `away`: it does not answer."""

    away: bool = False
    asked: list[str] = field(default_factory=list)
    mountpoint: str = "/"
    layers: str = ""
    """Where writable layers are; empty: not told."""

    async def list_pod_sandbox(self) -> list[cri.PodSandbox]:
        """List the pod's sandbox."""
        self._ask("ListPodSandbox")
        named = cri.PodSandboxMetadata(name="web", namespace="default", uid=node.UID)
        return [cri.PodSandbox(id=node.SANDBOX, metadata=named, created_at=1_000_500_000_000)]

    async def list_containers(self) -> list[cri.Container]:
        """List both containers."""
        self._ask("ListContainers")
        return [
            cri.Container(
                id=one,
                pod_sandbox_id=node.SANDBOX,
                metadata=cri.ContainerMetadata(name=name),
                image_ref=BUSYBOX_ID,
                labels={"io.kubernetes.container.name": name},
                created_at=created,
            )
            for one, name, created in ((node.MAIN, "main", 1_001_000_000_000), (node.TWO, "two", 1_002_000_000_000))
        ]

    async def list_images(self) -> list[cri.Image]:
        """List the containers' image and the pinned sandbox image."""
        self._ask("ListImages")
        return [
            cri.Image(id=BUSYBOX_ID, repo_tags=["docker.io/library/busybox:1.37"]),
            cri.Image(id="sha256:p", repo_tags=["registry.k8s.io/pause:3.10.2"], pinned=True),
        ]

    async def image_fs_info(self) -> cri.ImageFsInfoResponse:
        """Return where images are stored, and writable layers if that is told."""
        self._ask("ImageFsInfo")
        place = cri.FilesystemIdentifier(mountpoint=self.mountpoint)
        images = cri.FilesystemUsage(fs_id=place, used_bytes=cri.UInt64Value(value=77))
        layers = cri.FilesystemUsage(
            fs_id=cri.FilesystemIdentifier(mountpoint=self.layers), used_bytes=cri.UInt64Value(value=88)
        )
        return cri.ImageFsInfoResponse(
            image_filesystems=[images], container_filesystems=[layers] if self.layers else []
        )

    async def list_container_stats(self, sandbox_id: str) -> list[cri.ContainerStats]:
        """Return the writable layer of one container."""
        assert not sandbox_id
        self._ask("ListContainerStats")
        place = cri.FilesystemIdentifier(mountpoint=self.mountpoint)
        layer = cri.FilesystemUsage(
            timestamp=1_000_000_000_000,
            fs_id=place,
            used_bytes=cri.UInt64Value(value=4096),
            inodes_used=cri.UInt64Value(value=3),
        )
        return [cri.ContainerStats(attributes=cri.ContainerAttributes(id=node.MAIN), writable_layer=layer)]

    def _ask(self, call: str) -> None:
        self.asked.append(call)
        if self.away:
            raise CriError(call, grpc.StatusCode.UNAVAILABLE, "no such socket")
