"""As whom an image runs, asked of the runtime once for each image (kuberuntime/helpers.go getImageUser).

What an image id names never changes, so what was answered for one is kept; a name that is no id is asked for each time.
"""

from typing import Final

from activities.clients.runtime import RuntimeClient
from activities.cri_config.security_context import ImageUser

_KEPT: Final = 1000
"""More images than a node holds; beyond that all is forgotten and asked again."""


class ImageUsers:
    """The users of this node's images."""

    def __init__(self) -> None:
        self._known: dict[str, ImageUser] = {}

    async def user_of(self, runtime: RuntimeClient, image_ref: str) -> ImageUser:
        """Say as whom an image runs; one that the runtime does not know, or that names nobody, runs as root.

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
