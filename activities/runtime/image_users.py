"""The user that an image runs as, asked of the runtime once for each image (kuberuntime/helpers.go getImageUser).

An image ID never changes its meaning, so the answer is cached; for a name that is not an ID it is not.
"""

from typing import Final

from activities.clients.runtime import RuntimeClient
from activities.cri_config.security_context import ImageUser

_KEPT: Final = 1000
"""More images than a node has; beyond that the cache is cleared."""


class ImageUsers:
    """A cache of the users of images."""

    def __init__(self) -> None:
        self._known: dict[str, ImageUser] = {}

    async def user_of(self, runtime: RuntimeClient, image_ref: str) -> ImageUser:
        """Return the user that an image runs as; root if the runtime does not know the image or it names no user.

        Raises CriError.
        """
        if known := self._known.get(image_ref):
            return known
        image = await runtime.image_status(image_ref)
        user = ImageUser()
        if image is not None and image.HasField("uid"):
            user = ImageUser(image.uid.value)
        elif image is not None and image.username:
            user = ImageUser(None, image.username)
        if image is not None and image.id == image_ref:
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[image_ref] = user
        return user
