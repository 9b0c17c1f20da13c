"""Whose a cgroup is: the pod, the container and the image of what the runtime runs.

The runtime is asked only when a cgroup turns up that is not known yet: what is told of a container never changes, so a node on
which nothing starts or ends costs no call. What is gone from the cgroups is forgotten.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from activities.clients.runtime import RuntimeClient
from proto.cri.labels import CONTAINER_NAME

ASK_AGAIN: Final = 2.0
"""Seconds: a cgroup of which the runtime knows nothing (another program's) must not cost two calls a scrape."""
_NANOSECOND: Final = 10**9


class Owner(NamedTuple):
    """What the runtime tells of a container, or of a sandbox, whose container's name is empty."""

    id: str
    namespace: str
    pod: str
    pod_uid: str
    container: str
    image: str
    created: float
    """Seconds since 1970."""
    sandbox_id: str
    """Its own, for a sandbox."""

    @property
    def is_sandbox(self) -> bool:
        """Say whether it holds a pod's namespaces and nothing else."""
        return self.id == self.sandbox_id


class Owners:
    """What is known of the runtime's containers and sandboxes, by id; used from one event loop."""

    def __init__(self, runtime: RuntimeClient) -> None:
        """Take the runtime that tells it."""
        self._runtime = runtime
        self._known: dict[str, Owner] = {}
        self._images: dict[str, str] = {}
        self._sandbox_image = ""
        self._asked = -ASK_AGAIN
        self._asking = asyncio.Lock()

    async def of(self, ids: Iterable[str]) -> Mapping[str, Owner]:
        """Say whose these are, as far as the runtime knows; raises CriError when it has to be asked and does not answer."""
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
            said, created = one.metadata, one.created_at / _NANOSECOND
            self._known[one.id] = Owner(
                one.id, said.namespace, said.name, said.uid, "", self._sandbox_image, created, one.id
            )
        for container in containers:
            if (sandbox := self._known.get(container.pod_sandbox_id)) is None:
                continue
            name = container.labels.get(CONTAINER_NAME) or container.metadata.name
            image = self._images.get(container.image_ref or container.image.image, container.image.image)
            created = container.created_at / _NANOSECOND
            self._known[container.id] = sandbox._replace(id=container.id, container=name, image=image, created=created)

    async def _learn_images(self, references: set[str]) -> None:
        """Learn by which name an image is known, for the runtime lists a container by its image's id.

        Of a sandbox it lists no image: it is the one that the runtime keeps for itself, if that is one.
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
