"""Makes images present on the node, by pull policy.

An image on the node is not free for every pod: `access` decides whether this pod may use it without a pull. Reasons
are the kubelet's (pkg/kubelet/images): InvalidImageName, ImageInspectError, ErrImageNeverPull, ErrImagePull,
RegistryUnavailable, SignatureValidationFailed. The workflow decides the back-off between tries. Images are pulled
while the sandbox is created.
"""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from typing import Final

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.clients.cri_error import CriError, Remedy
from activities.execution.errors import non_retryable_failure, runtime_failure
from activities.execution.heartbeat import Heartbeat, heartbeating
from activities.images.access.image_names import InvalidImageName, quoted_name, with_default_tag
from activities.images.access.logins import PullLogins
from activities.images.access.registry_pull import IntentNotWritten, RegistryPull, is_runtime_unavailable
from activities.images.access.verification import Standing
from activities.images.credentials.docker_config import NotADockerConfig
from activities.images.services import ImageServices
from proto.cri.v1 import api_pb2 as cri
from proto.temporal import names
from proto.temporal.activities.requests import ImagesPresent, PulledImage, PullImage, ReadImages
from proto.temporal.node import PrepullImage
from proto.temporal.pod import PodKey

_REGISTRY_REASONS: Final = {  # cri-api pkg/errors: the runtime opens its message with the word
    "RegistryUnavailable": "because the registry is unavailable",
    "SignatureValidationFailed": "because the signature validation failed",
}
_NO_POD: Final = PodKey("", "", "")
"""A pod without pull secrets."""


class ImageActivities:
    """Activities for images."""

    def __init__(self, services: ImageServices) -> None:
        self._services = services

    @activity.defn(name=names.READ_IMAGES)
    async def read_images(self, request: ReadImages) -> ImagesPresent:
        """Return the images that any pod may use; for others, a pull decides whether this pod may have them."""
        async with heartbeating(f"look for the images of {request.pod}"):
            found = await asyncio.gather(*(self._present(image) for image in request.images))
        return ImagesPresent({image: ref for image, ref in zip(request.images, found, strict=True) if ref})

    @activity.defn(name=names.PULL_IMAGE)
    async def pull_image(self, request: PullImage) -> PulledImage:
        """Return an image on the node, pulled if the policy says so; a second call finds it there."""
        return await self._ensure(request)

    @activity.defn(name=names.PREPULL_IMAGE)
    async def prepull_image(self, request: PrepullImage) -> PulledImage:
        """Return an image that the node itself needs, pulled with the node's own logins if it is absent."""
        return await self._ensure(PullImage(_NO_POD, request.image, "IfNotPresent"))

    async def _ensure(self, request: PullImage) -> PulledImage:
        async with heartbeating(f"look for {request.image}") as heart:
            return await self.ensure(request, heart)

    async def ensure(self, request: PullImage, heart: Heartbeat) -> PulledImage:
        """Ensure that an image is present, as PullImage does, for an activity with its own heartbeats."""
        try:
            image = with_default_tag(request.image)
        except InvalidImageName as error:
            doing = f"Failed to apply default image tag {quoted_name(request.image)}"
            raise non_retryable_failure("InvalidImageName", f"{doing}: {error}") from error
        wanted = _Wanted(request, image, self._services)
        heart.say(f"look for {image}")
        if request.policy != "Always":
            found = await self._inspect(image)
            if found and await self._may_use(wanted, found.id):
                return PulledImage(found.id, present=True, size_bytes=found.size, warnings=wanted.warnings)
            if request.policy == "Never":  # a pod without access must not learn whether the image is there
                message = f'Container image "{request.image}" is not present with pull policy of Never'
                raise non_retryable_failure("ErrImageNeverPull", message)
        return await self._pull(wanted, heart)

    async def _present(self, asked: str) -> str:
        try:
            image = with_default_tag(asked)
            found = await self._services.runtime.image_status(image)
            if found is None or await self._standing(image, found.id) is not Standing.ALLOWED:
                return ""
        except InvalidImageName:
            return ""
        except CriError as error:
            if error.remedy is Remedy.RETRY:
                raise runtime_failure(
                    error, self._services.runtime.endpoint, "ImageInspectError", f"look for {asked}"
                ) from error
            return ""
        return str(found.id)

    async def _standing(self, image: str, image_ref: str) -> Standing:
        """Judge an image on the node without the pod's logins; raises CriError while the runtime is unavailable."""
        if (rights := self._services.pull_rights) is None:
            return Standing.ALLOWED
        try:
            await rights.ready(self._services.runtime.image_id)
        except OSError as error:
            raise non_retryable_failure("ImageInspectError", f"The records of pulls cannot be read: {error}") from error
        return rights.standing(image, image_ref)

    async def _may_use(self, wanted: "_Wanted", image_ref: str) -> bool:
        """Report whether the pod may use an image on the node without a pull."""
        try:
            standing = await self._standing(wanted.image, image_ref)
        except CriError as error:
            raise self._not_inspected(wanted.image, error) from error
        rights = self._services.pull_rights
        if standing is Standing.ALLOWED or rights is None:
            return True
        if standing is Standing.ASK_LOGINS:
            logins = await wanted.find_logins()
            if await rights.allows(wanted.image, image_ref, logins.rights()):
                return True
        wanted.withheld = rights.why_denied(wanted.image, image_ref)
        return False

    async def _pull(self, wanted: "_Wanted", heart: Heartbeat) -> PulledImage:
        started, begun = monotonic(), monotonic()
        logins = await wanted.find_logins()
        self._services.pull_started(wanted.request)
        heart.say(f"wait for {wanted.image}: other pulls go first, or another pod pulls it")

        def pull(asked: str) -> Awaitable[str]:
            nonlocal begun
            begun = monotonic()
            heart.say(f"pull {asked}, begun {begun - started:.0f} s after it was asked for")
            return RegistryPull(self._services.runtime, self._services.pull_rights, asked, logins.credentials).run()

        try:
            image_ref = await self._services.pulls.pull(wanted.image, pull, logins.digest())
        except CriError as error:
            raise self._pull_failed(wanted, error) from error
        except IntentNotWritten as error:
            raise non_retryable_failure("ErrImagePull", str(error)) from error
        found = await self._inspect(image_ref)
        took, size = monotonic() - started, found.size if found else 0
        self._services.pulls.measure(took, size)
        return PulledImage(
            image_ref=image_ref,
            size_bytes=size,
            took=timedelta(seconds=took),
            waited=timedelta(seconds=begun - started),
            warnings=logins.warnings,
        )

    async def _inspect(self, image: str) -> cri.Image | None:
        try:
            return await self._services.runtime.image_status(image)
        except CriError as error:
            raise self._not_inspected(image, error) from error

    def _not_inspected(self, image: str, error: CriError) -> ApplicationError:
        return runtime_failure(
            error, self._services.runtime.endpoint, "ImageInspectError", f'Failed to inspect image "{image}"'
        )

    def _pull_failed(self, wanted: "_Wanted", error: CriError) -> ApplicationError:
        image, word, rest = wanted.image, *error.details.partition(":")[::2]
        remarks = "".join(f"; {one}" for one in (wanted.withheld, *wanted.warnings) if one)
        if because := _REGISTRY_REASONS.get(word):
            return non_retryable_failure(word, f"image pull failed for {image} {because}:{rest}{remarks}")
        if is_runtime_unavailable(error):
            return runtime_failure(error, self._services.runtime.endpoint, "ErrImagePull")
        return non_retryable_failure("ErrImagePull", f"{error.details}{remarks}")


@dataclass(slots=True)
class _Wanted:
    """An image that a pod needs, and the logins for it once they are needed."""

    request: PullImage
    image: str
    """With its tag."""
    services: ImageServices
    logins: PullLogins | None = None
    withheld: str = ""
    """Why it has to be pulled although it is on the node."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the logins, if they were needed."""
        return self.logins.warnings if self.logins else ()

    async def find_logins(self) -> PullLogins:
        """Find the logins, the first time only."""
        if self.logins is None:
            try:
                self.logins = await self.services.logins.find(self.services.objects, self.request, self.services.tokens)
            except NotADockerConfig as error:
                raise non_retryable_failure("ErrImagePull", str(error)) from None
        return self.logins
