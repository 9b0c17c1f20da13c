"""Waits until a volume is listed as in use and attached to this node, which the attach/detach controller and the driver's attacher do.

Used before a volume is staged whose driver requires it (CSIDriver spec.attachRequired, the default). The attachment's
metadata is passed to the driver (csi_attacher.go WaitForAttach, csi_plugin.go getPublishContext). The node authorizer
allows reading single VolumeAttachments only, so the object is polled with backoff.

Before, the node process has to have told the API server that the volume is in use: the controller may detach one that is not, while it
is being mounted (reconciler_common.go waitForVolumeAttach).

A driver that counts its places on this node may find one within the time of a try. If not, the pod is rejected, so that the
cluster runs another one where there is a place (volume_manager.go WaitForAttachAndMount, csi_plugin.go VerifyExhaustedResource).
"""

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from activities.objects.objects import ObjectKind, ObjectMissing, ObjectRefused, ObjectSource
from activities.volumes.csi.records.layout import unique_name
from activities.volumes.csi.records.volume import CsiVolume, attachment_name
from activities.volumes.plugin.volume_type import AttachLimitExceeded, NotAttached
from proto.volumes_in_use import reported_volumes

ATTACHED_WITHIN: Final = timedelta(minutes=2)
"""Of one try to mount; the next try waits as long again."""
_RESOURCE_EXHAUSTED: Final = 8
"""gRPC's number."""
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 2.0


class NoPlaceForVolume(NotAttached):
    """The driver cannot attach one more volume to this node."""


async def wait_reported(root_dir: Path, volume: CsiVolume, node: str) -> None:
    """Wait until the API server knows that a volume is in use on this node; raises NotAttached."""
    name, pause = unique_name(volume.driver, volume.handle), _FIRST_PAUSE
    try:
        async with asyncio.timeout(ATTACHED_WITHIN.total_seconds()):
            while name not in await asyncio.to_thread(reported_volumes, root_dir):
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
    except TimeoutError:
        raise NotAttached(
            f"kubernetes.io/csi: volume {volume.handle} is not marked in-use in the status of node {node} after "
            f"{ATTACHED_WITHIN.total_seconds():g} s"
        ) from None


async def wait_attached(
    objects: ObjectSource, volume: CsiVolume, node: str, no_place: Callable[[], None] | None = None
) -> dict[str, str]:
    """Wait until a volume is attached, and return the publish context; raises NotAttached.

    With `no_place`, which is called once, also while there is no place for it: raises AttachLimitExceeded in the end.
    """
    name = attachment_name(volume.handle, volume.driver, node)
    pause, why, no_room, told = _FIRST_PAUSE, "", False, False
    try:
        async with asyncio.timeout(ATTACHED_WITHIN.total_seconds()):
            while True:
                try:
                    attachment = (await objects.get(ObjectKind.VOLUME_ATTACHMENTS, "", name)).json
                    if (context := publish_context(attachment)) is not None:
                        return context
                    why, no_room = "it is not attached yet", False
                except (ObjectMissing, ObjectRefused) as error:
                    why, no_room = str(error), False
                except NoPlaceForVolume as error:
                    if no_place is None:
                        raise
                    why, no_room = str(error), True
                    if not told:
                        no_place()
                        told = True
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
    except TimeoutError:
        failed = AttachLimitExceeded if no_room else NotAttached
        raise failed(
            f"kubernetes.io/csi: attacher.WaitForAttach failed: volume {volume.handle} is not attached to node {node} after "
            f"{ATTACHED_WITHIN.total_seconds():g} s: {why}"
        ) from None


def publish_context(attachment: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the publish context; None while attaching is under way. Raises NotAttached if it failed."""
    if attachment["metadata"].get("deletionTimestamp"):
        raise NotAttached("kubernetes.io/csi: attacher.WaitForAttach failed: volume attachment is being deleted")
    status = attachment.get("status") or {}
    if status.get("attached"):
        return dict(status.get("attachmentMetadata") or {})
    if error := status.get("attachError"):
        failed = NoPlaceForVolume if error.get("errorCode") == _RESOURCE_EXHAUSTED else NotAttached
        raise failed(f"kubernetes.io/csi: attacher.WaitForAttach failed: {error.get('message', '')}")
    return None
