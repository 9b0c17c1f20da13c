"""What is removed under disk pressure before a pod is evicted, and what stays?"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, Mock

import grpc
import pytest

from activities.clients.cri_error import CriError
from activities.execution.timings import Timings
from activities.images.image_ages import ImageAges
from proto.cri.labels import POD_UID
from proto.cri.v1 import api_pb2 as cri
from proto.temporal.node import ImageAge, ImagePolicy
from proto.temporal.pod import Lifecycle
from tests.worker.host.pressure.pressed_node import snapshot
from worker.host.pressure.reclaiming import Reclaiming
from workflows.decide.eviction.disks import Reclaim

BOTH = (Reclaim.DEAD_CONTAINERS, Reclaim.UNUSED_IMAGES)
LONG_AGO = datetime.now(UTC) - timedelta(hours=1)


def container(name: str, uid: str, image: str, *, runs: bool = False) -> cri.Container:
    """Build a container of a pod."""
    state = cri.CONTAINER_RUNNING if runs else cri.CONTAINER_EXITED
    metadata = cri.ContainerMetadata(name=name)
    return cri.Container(id=name, metadata=metadata, state=state, labels={POD_UID: uid}, image_ref=image)


@pytest.fixture
def runtime(tmp_path: Path) -> Mock:
    """Play a runtime with containers of three pods, and an image each; a removed container uses no image any more."""
    containers = [
        container("over", "down", "sha256:over"),
        container("restarting", "wanted", "sha256:restarting"),
        container("up", "wanted", "sha256:up", runs=True),
        container("foreign", "another", "sha256:foreign"),
    ]
    images = [cri.Image(id=one.image_ref) for one in containers]
    images += [cri.Image(id="sha256:unused"), cri.Image(id="sha256:new"), cri.Image(id="sha256:pinned", pinned=True)]

    async def remove(container_id: str) -> None:
        containers[:] = [one for one in containers if one.id != container_id]

    disk = cri.FilesystemUsage(fs_id=cri.FilesystemIdentifier(mountpoint=str(tmp_path)))
    return Mock(
        list_containers=AsyncMock(side_effect=lambda *_: list(containers)),
        list_images=AsyncMock(return_value=images),
        image_fs_info=AsyncMock(return_value=cri.ImageFsInfoResponse(image_filesystems=[disk])),
        container_status=AsyncMock(return_value=cri.ContainerStatus()),
        image_status=AsyncMock(side_effect=lambda one: cri.Image(id=one)),
        remove_container=AsyncMock(side_effect=remove),
        remove_image=AsyncMock(),
    )


def reclaiming(runtime: Mock, counted: Callable[[str], None] = lambda _: None) -> Reclaiming:
    """Return it on a node with one pod that is down and one that is wanted; one image has just been pulled."""
    ages = ImageAges()
    ages.known = {one.id: ImageAge(one.id, LONG_AGO) for one in runtime.list_images.return_value if "new" not in one.id}
    services: Any = SimpleNamespace(
        runtime=runtime, image_ages=ages, pull_rights=None, timings=Timings(image_removed=counted)
    )
    pods = [snapshot("down", Lifecycle.TERMINATED), snapshot("wanted")]
    return Reclaiming(services, lambda: pods, ImagePolicy())


def removed(removal: AsyncMock) -> list[str]:
    """Return what was removed."""
    return [call.args[0] for call in removal.await_args_list]


async def test_dead_containers_of_pods_that_are_down_go_and_then_their_images(runtime: Mock) -> None:
    """Not those of a pod that starts again, of others, nor an image that was just pulled, is in use or pinned."""
    counted: list[str] = []
    await reclaiming(runtime, counted.append).do(BOTH)
    assert removed(runtime.remove_container) == ["over"]
    assert removed(runtime.remove_image) == ["sha256:over", "sha256:unused"]
    assert counted == ["space", "space"]


@pytest.mark.parametrize(
    ("what", "containers", "images"),
    [
        pytest.param((), [], [], id="nothing"),
        pytest.param((Reclaim.DEAD_CONTAINERS,), ["over"], [], id="containers"),
        pytest.param((Reclaim.UNUSED_IMAGES,), [], ["sha256:unused"], id="images"),
    ],
)
async def test_only_what_is_asked_for(
    runtime: Mock, what: tuple[Reclaim, ...], containers: list[str], images: list[str]
) -> None:
    """By the file system that is short."""
    await reclaiming(runtime).do(what)
    assert (removed(runtime.remove_container), removed(runtime.remove_image)) == (containers, images)


async def test_a_runtime_that_fails_at_one_kind_is_asked_for_the_next(runtime: Mock) -> None:
    """What cannot be removed now is looked for in the next round."""
    runtime.remove_container.side_effect = CriError("RemoveContainer", grpc.StatusCode.UNAVAILABLE, "busy")
    await reclaiming(runtime).do(BOTH)
    assert removed(runtime.remove_image) == ["sha256:unused"]


async def test_no_image_goes_before_its_age_is_known(runtime: Mock) -> None:
    """A worker that has just started knows none."""
    young = reclaiming(runtime)
    young._services.image_ages.known = {}
    await young.do((Reclaim.UNUSED_IMAGES,))
    assert removed(runtime.remove_image) == []
