"""Removes what no pod needs, before a pod is evicted: dead containers and unused images (node-level resources)."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

import structlog

from activities.clients.cri_error import CriError
from activities.images.image_use import NodeImages
from activities.node_services import NodeServices
from proto.cri.labels import POD_UID
from proto.cri.v1 import api_pb2 as cri
from proto.pod_snapshot import PodSnapshot
from proto.temporal.node import ImagePolicy
from proto.temporal.pod import Lifecycle
from workflows.decide.eviction.disks import Reclaim
from workflows.decide.node.image_collection import choose_unused

_log: Final = structlog.get_logger(__name__)


class Reclaiming:
    """Reclaims on one node; a runtime that does not answer reclaims nothing."""

    def __init__(self, services: NodeServices, pods: Callable[[], Iterable[PodSnapshot]], images: ImagePolicy) -> None:
        """Take the node's services, its pods, and how old an image must be before it may go."""
        self._services, self._pods, self._policy = services, pods, images

    async def do(self, what: Iterable[Reclaim]) -> None:
        """Remove all of this, one kind after the other."""
        for kind in what:
            try:
                await _HOW[kind](self)
            except (CriError, OSError) as error:
                _log.warning("could not reclaim everything", what=str(kind), err=str(error))

    async def _dead_containers(self) -> None:
        """Remove the containers of pods that are down; their statuses are known (DeleteAllUnusedContainers)."""
        down = {one.uid for one in self._pods() if one.lifecycle == Lifecycle.TERMINATED}
        runtime = self._services.runtime
        for one in await runtime.list_containers():
            if one.state == cri.CONTAINER_EXITED and one.labels.get(POD_UID) in down:
                _log.info("removing a dead container under disk pressure", container=one.metadata.name, id=one.id[:12])
                await runtime.remove_container(one.id)

    async def _unused_images(self) -> None:
        """Remove all images that no container uses and that have been known for the minimum age (DeleteUnusedImages)."""
        images = NodeImages(self._services)
        use = await images.with_mounted(await images.listed(self._services.image_ages.known))
        for one in choose_unused(use, self._policy):
            _log.info("removing an image", image=one.name, reason=one.reason)
            await images.remove(one.image_id)


_HOW: Final[Mapping[Reclaim, Callable[[Reclaiming], Awaitable[None]]]] = {
    Reclaim.DEAD_CONTAINERS: Reclaiming._dead_containers,  # noqa: SLF001 - this class's own
    Reclaim.UNUSED_IMAGES: Reclaiming._unused_images,  # noqa: SLF001
}
