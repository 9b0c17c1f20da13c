"""Have an image on the node, by its pull policy.

Reasons are the kubelet's (pkg/kubelet/images): InvalidImageName, ImageInspectError, ErrImageNeverPull, ErrImagePull,
RegistryUnavailable, SignatureValidationFailed. The back-off between tries is the workflow's. Images are pulled while
the sandbox is being made.
"""

import asyncio
from collections.abc import Awaitable
from datetime import timedelta
from time import monotonic
from typing import Final

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.errors import CriError, Remedy, failed, translated
from activities.heartbeat import Heartbeat, heartbeating
from activities.image_names import InvalidImageName, with_default_tag
from activities.node_services import NodeServices
from proto.cri.v1 import api_pb2 as cri
from proto.temporal import names
from proto.temporal.requests import ImagesPresent, PulledImage, PullImage, ReadImages

_REGISTRY_REASONS: Final = {  # cri-api pkg/errors: the runtime opens its message with the word
    "RegistryUnavailable": "because the registry is unavailable",
    "SignatureValidationFailed": "because the signature validation failed",
}


class ImageActivities:
    """Images on this node."""

    def __init__(self, services: NodeServices) -> None:
        self._services = services

    @activity.defn(name=names.READ_IMAGES)
    async def read_images(self, request: ReadImages) -> ImagesPresent:
        """Say which images are there; one whose name or record the runtime refuses is not, and a pull tells why."""
        async with heartbeating(f"look for the images of {request.pod}"):
            found = await asyncio.gather(*(self._present(image) for image in request.images))
        return ImagesPresent({image: ref for image, ref in zip(request.images, found, strict=True) if ref})

    @activity.defn(name=names.PULL_IMAGE)
    async def pull_image(self, request: PullImage) -> PulledImage:
        """Answer an image that is on the node, pulled if the policy says so; a second call finds it there."""
        try:
            image = with_default_tag(request.image)
        except InvalidImageName as error:
            raise failed("InvalidImageName", f"Failed to apply default image tag: {error}") from error
        async with heartbeating(f"look for {image}") as heart:
            if request.policy != "Always":
                if found := await self._inspect(image):
                    return PulledImage(image_ref=found.id, present=True, size_bytes=found.size)
                if request.policy == "Never":
                    message = f'Container image "{request.image}" is not present with pull policy of Never'
                    raise failed("ErrImageNeverPull", message)
            return await self._pull(image, heart)

    async def _present(self, asked: str) -> str:
        try:
            found = await self._services.runtime.image_status(with_default_tag(asked))
        except InvalidImageName:
            return ""
        except CriError as error:
            if error.remedy is Remedy.RETRY:
                raise translated(error, self._services.endpoint, "ImageInspectError", f"look for {asked}") from error
            return ""
        return str(found.id) if found else ""

    async def _pull(self, image: str, heart: Heartbeat) -> PulledImage:
        started = monotonic()
        heart.say(f"wait for {image}: other pulls go first, or another pod pulls it")

        def pull(asked: str) -> Awaitable[str]:
            heart.say(f"pull {asked}, {monotonic() - started:.0f} s after it was asked for")
            return self._services.runtime.pull_image(asked)

        try:
            image_ref = await self._services.pulls.pull(image, pull)
        except CriError as error:
            raise self._pull_failed(image, error) from error
        took = timedelta(seconds=monotonic() - started)
        found = await self._inspect(image_ref)
        return PulledImage(image_ref=image_ref, size_bytes=found.size if found else 0, took=took)

    async def _inspect(self, image: str) -> cri.Image | None:
        try:
            return await self._services.runtime.image_status(image)
        except CriError as error:
            doing = f'Failed to inspect image "{image}"'
            raise translated(error, self._services.endpoint, "ImageInspectError", doing) from error

    def _pull_failed(self, image: str, error: CriError) -> ApplicationError:
        word, _, rest = error.details.partition(":")
        if because := _REGISTRY_REASONS.get(word):
            return failed(word, f"image pull failed for {image} {because}:{rest}")
        if error.remedy is Remedy.RETRY and error.details.startswith("failed to pull"):
            # the runtime is there and passes a registry's 503 on
            return failed("ErrImagePull", f'Failed to pull image "{image}": {error.details}')
        return translated(error, self._services.endpoint, "ErrImagePull", f'Failed to pull image "{image}"')
