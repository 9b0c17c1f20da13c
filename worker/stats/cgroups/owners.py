"""The owner of a cgroup: pod, container and image, as the runtime reports them.

The runtime is called only when an unknown cgroup appears. What it reports of a container never changes, so an idle node makes
no calls. Entries of removed cgroups are dropped.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from activities.clients.runtime import RuntimeClient
from proto.cri.labels import CONTAINER_NAME

ASK_AGAIN: Final = 2.0
"""Seconds between calls: a cgroup unknown to the runtime (of another program) must not cost two calls for each scrape."""
_NANOSECOND: Final = 10**9


class Owner(NamedTuple):
    """A container, or a sandbox, which has no container name."""

    id: str
    namespace: str
    pod: str
    pod_uid: str
    container: str
    image: str
    created: float
    """Seconds since 1970."""
    sandbox_id: str
    """For a sandbox, its own id."""

    @property
    def is_sandbox(self) -> bool:
        """Report whether it is a sandbox."""
        return self.id == self.sandbox_id


class Owners:
    """The known containers and sandboxes, by id; used from one event loop."""

    def __init__(self, runtime: RuntimeClient) -> None:
        """Take the client of the runtime."""
        self._runtime = runtime
        self._known: dict[str, Owner] = {}
        self._images: dict[str, str] = {}
        self._sandbox_image = ""
        self._asked = -ASK_AGAIN
        self._asking = asyncio.Lock()

    async def of(self, ids: Iterable[str]) -> Mapping[str, Owner]:
        """Return the owners that the runtime knows; raises CriError if it must be called and does not answer."""
        wanted = set(ids)
        async with self._asking:
            if wanted - self._known.keys() and time.monotonic() - self._asked >= ASK_AGAIN:
                await self._ask()
                self._asked = time.monotonic()
            self._known = {one: owner for one, owner in self._known.items() if one in wanted}
            return self._known

    async def _ask(self) -> None:
        sandboxes = await self._runtime.list_pod_sandbox()
        containers = await self._runtime.list_containers()
        await self._learn_images({one.image_ref or one.image.image for one in containers})
        for one in sandboxes:
            metadata, created = one.metadata, one.created_at / _NANOSECOND
            self._known[one.id] = Owner(
                one.id, metadata.namespace, metadata.name, metadata.uid, "", self._sandbox_image, created, one.id
            )
        for container in containers:
            if (sandbox := self._known.get(container.pod_sandbox_id)) is None:
                continue
            name = container.labels.get(CONTAINER_NAME) or container.metadata.name
            image = self._images.get(container.image_ref or container.image.image, container.image.image)
            created = container.created_at / _NANOSECOND
            self._known[container.id] = sandbox._replace(id=container.id, container=name, image=image, created=created)

    async def _learn_images(self, references: set[str]) -> None:
        """Learn the names of images, because the runtime lists a container with its image's id.

        A sandbox is listed without image: it is the runtime's pinned image, if there is exactly one.
        """
        if references <= self._images.keys() and self._sandbox_image:
            return
        pinned = []
        for image in await self._runtime.list_images():
            if names := list(image.repo_tags) or list(image.repo_digests):
                self._images[image.id] = names[0]
                pinned += names[:1] if image.pinned else []
        self._sandbox_image = pinned[0] if len(pinned) == 1 else ""
        self._images = {one: self._images.get(one, one) for one in references}
