"""Does a watch of the images know what the one before saw, whoever asks for it?"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock

import grpc
import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.clients.cri_error import CriError
from activities.execution.in_process import InProcessActivities, InProcessAttempt
from activities.images.image_collection import ImageCollectionActivities
from proto.cri.v1 import api_pb2 as cri
from proto.image_collection import ImagesSeen, ImageStays, ImagesUnseen
from proto.temporal import names
from proto.temporal.node import ImageAge, ImagePolicy, RemoveImage, WatchImages

ASKED = WatchImages(ImagePolicy(look_every=timedelta(milliseconds=5)))
Said = list[dict[str, Any]]


@pytest.fixture
def watching(tmp_path: Path) -> ImageCollectionActivities:
    """Return the activities on a node with one image that is not in use."""
    disk = cri.FilesystemUsage(fs_id=cri.FilesystemIdentifier(mountpoint=str(tmp_path)))
    runtime = Mock(
        list_images=AsyncMock(return_value=[cri.Image(id="sha256:1", repo_tags=["busybox:1.37"])]),
        list_containers=AsyncMock(return_value=[]),
        image_fs_info=AsyncMock(return_value=cri.ImageFsInfoResponse(image_filesystems=[disk])),
    )
    return ImageCollectionActivities(Mock(runtime=runtime, settings=Mock(root_dir=tmp_path), pull_rights=None))


class Asking:
    """One attempt of either kind, and what it said."""

    def __init__(self, acting: ImageCollectionActivities, *, by_temporal: bool, earlier: tuple[Any, ...] = ()) -> None:
        self.said: list[Said] = []
        self.spoke = asyncio.Event()
        asked = replace(ASKED, policy=replace(ASKED.policy, high_threshold_percent=100))
        if by_temporal:
            environment = ActivityEnvironment()
            environment.info = replace(environment.info, heartbeat_details=earlier)
            environment.on_heartbeat = self.hear
            self.stop: Callable[[], object] = environment.worker_shutdown
            self.task = asyncio.ensure_future(environment.run(acting.watch_images, asked))
            return
        activities = InProcessActivities([acting.watch_images], [])
        attempt = Listened(
            name=names.WATCH_IMAGES,
            workflow_id="node/n1",
            key="images",
            asker=("e", 1),
            deliver=Mock(),
            earlier=earlier,
        )
        attempt.hear = self.hear
        self.stop = lambda: asyncio.ensure_future(activities.stop(timedelta(seconds=5)))
        self.task = asyncio.ensure_future(activities.run(attempt, asked))

    def hear(self, details: Said) -> None:
        """Hear what it says."""
        self.said.append(details)
        self.spoke.set()

    async def seen_since(self) -> datetime:
        """Return since when the image is known, by what it says first."""
        async with asyncio.timeout(30):
            await self.spoke.wait()
        [image] = self.said[0]
        found: datetime = image["detected_at"]
        return found

    async def fails(self) -> str:
        """Return why it failed."""
        with pytest.raises(ApplicationError) as failure:
            await self.task
        return failure.value.type or ""


class Listened(InProcessAttempt):
    """An attempt whose details are heard at once."""

    hear: Callable[[Said], None]

    def say(self, *details: Any) -> None:
        """Hear them, and keep them."""
        super().say(*details)
        self.hear(*details)


async def test_no_image_is_too_old_before_the_agent_has_run_for_that_long(watching: ImageCollectionActivities) -> None:
    """As with the kubelet, though the ages outlive the agent before."""
    maximum = timedelta(milliseconds=200)
    policy = ImagePolicy(high_threshold_percent=100, maximum_age=maximum, look_every=timedelta(milliseconds=5))
    old = ImageAge("sha256:1", datetime.now(UTC) - timedelta(hours=1))
    use = await ActivityEnvironment().run(watching.watch_images, WatchImages(policy, known=(old,)))
    assert use.agent_began is not None
    assert use.at - use.agent_began > maximum
    assert [one.age for one in use.images] == [old]


async def test_others_hear_what_happens(watching: ImageCollectionActivities) -> None:
    """Looks, looks that fail, removals, and those that fail; one that was not made is none."""
    services: Any = watching._services
    services.runtime.remove_image = AsyncMock()
    services.runtime.container_status = AsyncMock(return_value=Mock(mounts=[]))
    services.runtime.image_status = AsyncMock(return_value=cri.Image(id="sha256:1"))
    removal = RemoveImage("sha256:1", "busybox:1.37", "old")

    async def heard() -> list[str]:
        await ActivityEnvironment().run(watching.remove_image, removal)
        return [type(one.args[0]).__name__ for one in services.collection_step.call_args_list]

    assert await heard() == ["ImageGone"]
    services.runtime.list_containers.return_value = [cri.Container(id="c1", image_id="sha256:1")]
    assert await heard() == ["ImageGone"]
    services.runtime.list_containers.return_value = []
    services.runtime.remove_image.side_effect = CriError("RemoveImage", grpc.StatusCode.UNKNOWN, "busy")
    with pytest.raises(ApplicationError):
        await heard()
    (step,) = services.collection_step.call_args.args
    assert step == ImageStays(removal, "busy")
    services.runtime.list_images.side_effect = [CriError("ListImages", grpc.StatusCode.UNAVAILABLE, "away"), []]
    services.collection_step.reset_mock()
    over = asyncio.Event()
    services.collection_step.side_effect = lambda step: over.set() if isinstance(step, ImagesSeen) else None
    asking = Asking(watching, by_temporal=True)
    async with asyncio.timeout(30):
        await over.wait()
    asking.stop()
    assert await asking.fails() == "WorkerStopping"
    first, second = (one.args[0] for one in services.collection_step.call_args_list[:2])
    assert isinstance(first, ImagesUnseen)
    assert first.error == "away"
    assert isinstance(second, ImagesSeen)


@pytest.mark.parametrize("by_temporal", [True, False], ids=["from-temporal", "to-temporal"])
async def test_the_newer_watch_knows_what_the_older_one_saw(
    watching: ImageCollectionActivities, *, by_temporal: bool
) -> None:
    """Else each image would be new at each switch, and none ever old enough to be removed."""
    older = Asking(watching, by_temporal=by_temporal)
    since = await older.seen_since()
    newer = Asking(watching, by_temporal=not by_temporal)
    assert await newer.seen_since() == since
    assert await older.fails() == "Superseded"
    newer.stop()
    assert await newer.fails() == "WorkerStopping"
    third = Asking(watching, by_temporal=by_temporal)
    assert await third.seen_since() == since
    third.stop()
    assert await third.fails() == "WorkerStopping"


@pytest.mark.parametrize("carried", [True, False], ids=["by-temporal", "in-memory"])
async def test_the_next_process_knows_it_from_the_details(
    watching: ImageCollectionActivities, *, carried: bool
) -> None:
    """Temporal returns text where there were times."""
    first = Asking(watching, by_temporal=False)
    since = await first.seen_since()
    first.stop()
    await first.fails()
    said = [{**one, "detected_at": since.isoformat() if carried else since} for one in first.said[-1]]
    watching._newest = None
    second = Asking(watching, by_temporal=carried, earlier=(said,))
    assert await second.seen_since() == since
    second.stop()
    assert await second.fails() == "WorkerStopping"
