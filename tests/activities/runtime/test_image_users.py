"""As whom does an image run, and is the runtime asked no more often than it must?"""

from typing import cast

import pytest

from activities.clients.runtime import RuntimeClient
from activities.cri_config.security_context import ImageUser
from activities.runtime.image_users import ImageUsers
from proto.cri.v1 import api_pb2 as cri

ID = "sha256:1"


class Runtime:
    """Knows one image."""

    def __init__(self, image: cri.Image | None) -> None:
        self.image, self.asked = image, 0

    async def image_status(self, _: str) -> cri.Image | None:
        """Tell of it."""
        self.asked += 1
        return self.image


@pytest.mark.parametrize(
    ("image", "user", "asked"),
    [
        pytest.param(cri.Image(id=ID, uid=cri.Int64Value(value=1000)), ImageUser(1000), 1, id="a-number"),
        pytest.param(cri.Image(id=ID, uid=cri.Int64Value(value=0)), ImageUser(0), 1, id="root-by-number"),
        pytest.param(cri.Image(id=ID, username="app"), ImageUser(None, "app"), 1, id="a-name"),
        pytest.param(cri.Image(id=ID), ImageUser(0), 1, id="nobody-is-root"),
        pytest.param(cri.Image(id="sha256:2", username="app"), ImageUser(None, "app"), 2, id="asked-for-by-a-name"),
        pytest.param(None, ImageUser(0), 2, id="not-there"),
    ],
)
async def test_the_user(image: cri.Image | None, user: ImageUser, asked: int) -> None:
    """Of an id the first answer is kept, of anything else none (kuberuntime helpers_test.go TestGetImageUser)."""
    runtime, users = Runtime(image), ImageUsers()
    for _ in range(2):
        assert await users.user_of(cast("RuntimeClient", runtime), ID) == user
    assert runtime.asked == asked
